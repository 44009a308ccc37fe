/** Translates a Project resource into its form in the API. Pure: secrets come as arguments. */
import { isHosted, normalAddress, type Phase, type Project, TYPES, typeOf } from '@slipway/crds';
import { type Installation, projectUrlOf, SECRETS, siteUrlOf, variablesOf } from '@slipway/installation';
import { ANNOTATION_UPDATED, type SeenProject } from '../kubernetes/project-cache.js';
import { machineProgress } from './machine-requests.js';
import type { FullProject, ListedProject, ProjectStatusAnswer } from './project.schema.js';
import type { SeenSpec } from './project-owners.repository.js';
import { isApp } from './project-types.js';
import { type RotationSecrets, rotationsOf } from './rotation.js';

/** Content of the project's Secrets that exist. */
export interface ProjectSecrets {
  keys?: Record<string, string> | undefined;
  database?: Record<string, string> | undefined;
  env?: Record<string, string> | undefined;
  notifications?: Record<string, string> | undefined;
}

export const nameOf = ({ spec, metadata }: Project) => spec.name ?? metadata.name;
export const ownerOf = ({ spec }: Project) => normalAddress(spec.owner);
/** Returns the fields of a spec that the API's tables store. */
export const specOf = (project: SeenProject): SeenSpec => ({
  owner: ownerOf(project),
  name: nameOf(project),
  retained: project.spec.deletionPolicy === 'Retain',
  generation: project.metadata.generation ?? 1,
});
export const hasDatabase = (project: Project) => TYPES[typeOf(project)].hasDatabase;
export const phaseOf = ({ metadata, status }: Project): Phase =>
  metadata.deletionTimestamp ? 'deleting' : (status?.phase ?? 'provisioning');
/** Returns the party whose suspension applies: the platform if both suspended the project. */
function suspendedBy({ spec }: Project): 'platform' | 'owner' | null {
  if (spec.suspend) return 'platform';
  return spec.suspendedByOwner ? 'owner' : null;
}

export function summaryOf(project: SeenProject, id: number, installation: Installation): ListedProject {
  const { metadata, spec, status } = project;
  const url = status?.url ?? addressOf(project, installation);
  return {
    id,
    ref: metadata.name,
    name: nameOf(project),
    region: spec.region ?? 'eu-central',
    plan: spec.plan ?? 'free',
    backend_type: typeOf(project),
    status: phaseOf(project),
    provision_message: status?.message ?? '',
    retain: spec.deletionPolicy === 'Retain',
    suspended_by: suspendedBy(project),
    created_at: metadata.creationTimestamp,
    updated_at: metadata.annotations?.[ANNOTATION_UPDATED] || metadata.creationTimestamp,
    project_url: url,
    postgrest_url: hasDatabase(project) ? `${url}/rest/v1` : null,
    ...settingsOf(project),
  };
}

/** URL of a Project whose status has none yet. A site has its own origin. */
const addressOf = (project: Project, installation: Installation): string =>
  (isHosted(typeOf(project)) ? siteUrlOf(installation, project.metadata.name) : undefined) ??
  projectUrlOf(installation, project.metadata.name);

function settingsOf({ spec }: Project) {
  const { source, build } = spec;
  return {
    repo_url: source?.repoUrl ?? null,
    build_command: build?.buildCommand ?? 'npm run build',
    output_dir: build?.outputDir ?? 'dist',
    root_dir: build?.rootDir ?? '.',
    git_submodules: source?.submodules ?? false,
    previews: source?.previews ?? false,
    install_command: build?.installCommand ?? 'npm install',
    production_branch: source?.productionBranch ?? 'main',
    email_notifications: spec.notifications?.email ?? false,
    forms_enabled: spec.formsEnabled ?? false,
    mcp_writes: spec.mcpWrites ?? false,
    health_check_path: spec.app?.healthCheckPath ?? null,
    database_project: spec.app?.databaseProject ?? null,
    has_github_token: source?.tokenSecretRef !== undefined,
  };
}

/** `open` is true if the caller may see secrets. */
export function fullOf(
  project: SeenProject,
  id: number,
  installation: Installation,
  secrets: ProjectSecrets,
  open: boolean,
): FullProject {
  const { keys, database, env, notifications } = secrets;
  const isBackend = hasDatabase(project);
  const shown = (value: string | undefined) => (open ? (value ?? null) : null);
  const webhookSecret = keys?.[SECRETS.keys.webhookSecret];
  const webhookRoute = `${installation.publicUrl}/projects/${id}/${isApp(project) ? 'compute/webhook' : 'deploy'}`;
  const webhookUrl = webhookSecret && `${webhookRoute}?token=${encodeURIComponent(webhookSecret)}`;
  const slackKey = project.spec.notifications?.slackWebhookSecretRef?.key ?? SECRETS.notifications.slackWebhook;
  return {
    ...summaryOf(project, id, installation),
    db_url: isBackend ? shown(database?.[SECRETS.database.url]) : null,
    anon_key: (isBackend && keys?.[SECRETS.keys.anonKey]) || null,
    service_role_key: isBackend ? shown(keys?.[SECRETS.keys.serviceRoleKey]) : null,
    webhook_secret: shown(webhookSecret),
    webhook_url: shown(webhookUrl),
    env_vars: open ? variablesOf(env ?? {}) : null,
    slack_webhook: shown(notifications?.[slackKey]),
  };
}

type Service = NonNullable<NonNullable<Project['status']>['services']>[string];

/** Has only those members that the status has. Those from `image` on are of an app. */
const serviceOf = ({ up, status, endpoint, reason, ...app }: Service): ProjectStatusAnswer['services'][string] => ({
  up,
  status,
  endpoint: endpoint ?? null,
  ...(reason === undefined ? {} : { reason }),
  ...(app.image === undefined ? {} : { image: app.image }),
  ...(app.startedAt === undefined ? {} : { started_at: app.startedAt }),
  ...(app.restarts === undefined ? {} : { restarts: app.restarts }),
  ...(app.lastExitCode === undefined ? {} : { last_exit_code: app.lastExitCode }),
  ...(app.memoryBytes === undefined ? {} : { memory_bytes: app.memoryBytes }),
});

/** `secrets`: those that rotations change. */
export function statusOf(project: SeenProject, secrets: RotationSecrets = {}): ProjectStatusAnswer {
  const { services = {}, conditions = [], message = '', usage } = project.status ?? {};
  const machine = machineProgress(project);
  return {
    status: phaseOf(project),
    message,
    services: Object.fromEntries(Object.entries(services).map(([name, service]) => [name, serviceOf(service)])),
    ...(project.spec.rotation ? { rotations: rotationsOf(project, secrets) } : {}),
    ...(usage ? { usage } : {}),
    ...(machine ? { machine } : {}),
    conditions: conditions.map(({ type, status, reason, message: why, lastTransitionTime }) => ({
      type,
      status,
      reason,
      message: why,
      last_transition_time: lastTransitionTime,
    })),
  };
}
