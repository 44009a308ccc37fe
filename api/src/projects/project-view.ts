/** A Project resource as the API shows it. Pure: what must be looked up comes in. */
import { type Installation, type Phase, type Project, projectUrlOf, SECRETS } from '@slipway/crds';
import { ANNOTATION_UPDATED, type SeenProject } from '../kubernetes/project-cache.js';
import type { FullProject, ListedProject, ProjectStatusAnswer } from './project.schema.js';
import type { SeenSpec } from './project-owners.repository.js';

/** The content of the project's Secrets, as far as they are there. */
export interface ProjectSecrets {
  keys?: Record<string, string> | undefined;
  database?: Record<string, string> | undefined;
  env?: Record<string, string> | undefined;
  notifications?: Record<string, string> | undefined;
}

export const nameOf = ({ spec, metadata }: Project) => spec.name ?? metadata.name;
export const ownerOf = ({ spec }: Project) => spec.owner.trim().toLowerCase();
/** Returns the part of a spec that the API's tables store. */
export const specOf = (project: SeenProject): SeenSpec => ({
  owner: ownerOf(project),
  name: nameOf(project),
  retained: project.spec.deletionPolicy === 'Retain',
  generation: project.metadata.generation ?? 1,
});
export const typeOf = ({ spec }: Project) => spec.type ?? 'shared';
export const hasDatabase = (project: Project) => ['shared', 'dedicated'].includes(typeOf(project));
export const phaseOf = ({ metadata, status }: Project): Phase =>
  metadata.deletionTimestamp ? 'deleting' : (status?.phase ?? 'provisioning');
/** It is to stand still, whether or not all of it does yet. */
export const isSuspended = ({ spec }: Project) => spec.suspend === true;

export function summaryOf(project: SeenProject, id: number, installation: Installation): ListedProject {
  const { metadata, spec, status } = project;
  const url = status?.url ?? projectUrlOf(installation, metadata.name);
  return {
    id,
    ref: metadata.name,
    name: nameOf(project),
    region: spec.region ?? 'eu-central',
    plan: spec.plan ?? 'free',
    backend_type: typeOf(project),
    status: phaseOf(project),
    provision_message: status?.message ?? '',
    created_at: metadata.creationTimestamp,
    updated_at: metadata.annotations?.[ANNOTATION_UPDATED] || metadata.creationTimestamp,
    project_url: url,
    postgrest_url: hasDatabase(project) ? `${url}/rest/v1` : null,
    ...settingsOf(project),
  };
}

function settingsOf({ spec }: Project) {
  const { source, build } = spec;
  return {
    repo_url: source?.repoUrl ?? null,
    build_command: build?.buildCommand ?? 'npm run build',
    output_dir: build?.outputDir ?? 'dist',
    install_command: build?.installCommand ?? 'npm install',
    production_branch: source?.productionBranch ?? 'main',
    email_notifications: spec.notifications?.email ?? false,
    forms_enabled: spec.formsEnabled ?? false,
    mcp_writes: spec.mcpWrites ?? false,
    has_github_token: source?.tokenSecretRef !== undefined,
  };
}

/** `open`: whether the caller may see secrets. */
export function fullOf(
  project: SeenProject,
  id: number,
  installation: Installation,
  secrets: ProjectSecrets,
  open: boolean,
): FullProject {
  const { keys, database, env, notifications } = secrets;
  const shown = (value: string | undefined) => (open ? (value ?? null) : null);
  const webhookSecret = keys?.[SECRETS.keys.webhookSecret];
  const webhookUrl =
    webhookSecret && `${installation.publicUrl}/projects/${id}/deploy?token=${encodeURIComponent(webhookSecret)}`;
  const slackKey = project.spec.notifications?.slackWebhookSecretRef?.key ?? SECRETS.notifications.slackWebhook;
  return {
    ...summaryOf(project, id, installation),
    db_url: shown(database?.[SECRETS.database.url]),
    anon_key: keys?.[SECRETS.keys.anonKey] ?? null,
    service_role_key: shown(keys?.[SECRETS.keys.serviceRoleKey]),
    webhook_secret: shown(webhookSecret),
    webhook_url: shown(webhookUrl),
    env_vars: open ? (env ?? {}) : null,
    slack_webhook: shown(notifications?.[slackKey]),
  };
}

export function statusOf(project: Project): ProjectStatusAnswer {
  const { services = {}, conditions = [], message = '' } = project.status ?? {};
  return {
    status: phaseOf(project),
    message,
    services: Object.fromEntries(
      Object.entries(services).map(([name, { up, status, endpoint }]) => [
        name,
        { up, status, endpoint: endpoint ?? null },
      ]),
    ),
    conditions: conditions.map(({ type, status, reason, message: why, lastTransitionTime }) => ({
      type,
      status,
      reason,
      message: why,
      last_transition_time: lastTransitionTime,
    })),
  };
}
