/** Translates a PATCH into a merge patch of the Project's spec: pure. A setting that returns to its default is null. */
import { SECRETS } from '@slipway/crds';
import { invalid } from '../http/problem.js';
import type { ProjectChange } from './project.schema.js';

type Patch = Record<string, unknown>;

export function specPatch(change: ProjectChange): Patch {
  return present({
    source: present({
      repoUrl: change.repo_url,
      productionBranch: change.production_branch,
      tokenSecretRef: reference(change.github_token, SECRETS.git.name, SECRETS.git.token),
    }),
    build: present({
      installCommand: change.install_command,
      buildCommand: change.build_command,
      outputDir: change.output_dir,
    }),
    notifications: present({
      email: change.email_notifications,
      slackWebhookSecretRef: reference(
        change.slack_webhook,
        SECRETS.notifications.name,
        SECRETS.notifications.slackWebhook,
      ),
    }),
    formsEnabled: change.forms_enabled,
    mcpWrites: change.mcp_writes,
    env:
      change.env_vars === undefined || change.env_vars === null
        ? change.env_vars
        : { secretRef: { name: SECRETS.env.name } },
  });
}

/** Bytes of names and values: the Kubernetes API keeps each project's, in memory if it is ours. */
const MAX_ENV_BYTES = 64 * 1024;

export function boundedVariables(given: NonNullable<ProjectChange['env_vars']>): Record<string, string> {
  const variables = variablesOf(given);
  const bytes = Object.entries(variables).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0);
  if (bytes <= MAX_ENV_BYTES) return variables;
  throw invalid('env_vars', `names and values have ${bytes} bytes together, and may have ${MAX_ENV_BYTES}`);
}

/** Both forms of `env_vars` as one; of a key that is given twice the last counts. */
const variablesOf = (given: NonNullable<ProjectChange['env_vars']>): Record<string, string> =>
  Array.isArray(given) ? Object.fromEntries(given.map(({ key, value }) => [key, value])) : given;

const reference = (value: string | null | undefined, name: string, key: string) =>
  typeof value === 'string' ? { name, key } : value;

/** Without what was not asked for; undefined where nothing is left. */
function present(patch: Patch): Patch {
  const entries = Object.entries(patch).filter(([, value]) => value !== undefined && !isEmpty(value));
  return Object.fromEntries(entries);
}

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;
