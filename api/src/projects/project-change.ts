/** Translates a PATCH into a merge patch of the Project's spec. Pure. A setting with its default value becomes null. */
import { type Project, typeOf } from '@slipway/crds';
import { type EnvTarget, SECRETS, targetsOf, withTargets } from '@slipway/installation';
import { invalid } from '../http/problem.js';
import type { ProjectChange } from './project.schema.js';
import { isApp, oneOfType } from './project-types.js';

type Patch = Record<string, unknown>;

export function specPatch(change: ProjectChange): Patch {
  return present({
    name: change.name,
    plan: change.plan,
    deletionPolicy: retention(change.retain),
    source: present({
      repoUrl: change.repo_url,
      productionBranch: change.production_branch,
      submodules: change.git_submodules,
      previews: change.previews,
      tokenSecretRef: reference(change.github_token, SECRETS.git.name, SECRETS.git.token),
    }),
    build: present({
      installCommand: change.install_command,
      buildCommand: change.build_command,
      outputDir: change.output_dir,
      rootDir: change.root_dir,
    }),
    notifications: present({
      email: change.email_notifications,
      slackWebhookSecretRef: reference(
        change.slack_webhook,
        SECRETS.notifications.name,
        SECRETS.notifications.slackWebhook,
      ),
    }),
    app: present({ healthCheckPath: change.health_check_path, databaseProject: change.database_project }),
    suspendedByOwner: change.suspended,
    formsEnabled: change.forms_enabled,
    mcpWrites: change.mcp_writes,
    env:
      change.env_vars === undefined || change.env_vars === null
        ? change.env_vars
        : { secretRef: { name: SECRETS.env.name } },
  });
}

/**
 * Maximum bytes of the names and values of variables together. The Kubernetes API stores them, on one machine in
 * memory.
 */
const MAX_ENV_BYTES = 64 * 1024;

type GivenVariables = NonNullable<ProjectChange['env_vars']>;

export function refuseTooManyBytes(given: GivenVariables): void {
  const bytes = Object.entries(valuesOf(given)).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0);
  if (bytes <= MAX_ENV_BYTES) return;
  throw invalid('env_vars', `names and values have ${bytes} bytes together; the limit is ${MAX_ENV_BYTES}`);
}

/** Rejects a value for a setting that only projects of another type have. */
export function refuseSettingsOfOthers(project: Project, change: ProjectChange): void {
  if (isApp(project)) return;
  for (const field of ['health_check_path', 'database_project'] as const) {
    if (change[field] === undefined || change[field] === null) continue;
    throw invalid(field, `only an app has it, and this is ${oneOfType(typeOf(project))} project`);
  }
}

/**
 * Returns the new content of the Secret. The object form keeps the targets of names that stay. Every other variable
 * without a target gets `byDefault`.
 */
export function envContent(
  given: GivenVariables,
  before: Record<string, string>,
  byDefault: EnvTarget,
): Record<string, string> {
  const values = valuesOf(given);
  const targets = Array.isArray(given) ? givenTargets(given) : targetsOf(before);
  return withTargets(values, new Map(Object.keys(values).map((name) => [name, targets.get(name) ?? byDefault])));
}

/** An image keeps the variables that its build reads, so by default only the container of an app gets variables. */
export const defaultTarget = (project: Project): EnvTarget => (isApp(project) ? 'runtime' : 'all');

/** Converts both forms of `env_vars` to one. The last value of a repeated key wins. */
const valuesOf = (given: GivenVariables): Record<string, string> =>
  Array.isArray(given) ? Object.fromEntries(given.map(({ key, value }) => [key, value])) : given;

const givenTargets = (given: Extract<GivenVariables, unknown[]>): Map<string, EnvTarget | undefined> =>
  new Map(given.map(({ key, target }) => [key, target]));

/** The default policy deletes the data. */
const retention = (retain: boolean | null | undefined) => (retain === undefined ? undefined : retain ? 'Retain' : null);

const reference = (value: string | null | undefined, name: string, key: string) =>
  typeof value === 'string' ? { name, key } : value;

/** Returns the patch without undefined fields; undefined if none is left. */
function present(patch: Patch): Patch {
  const entries = Object.entries(patch).filter(([, value]) => value !== undefined && !isEmpty(value));
  return Object.fromEntries(entries);
}

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;
