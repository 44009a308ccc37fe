/** What a PATCH asks for, as a merge patch of the Project's spec: pure, and null where a setting goes back to its default. */
import { SECRETS } from '@slipway/crds';
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

/** Both forms of `env_vars` as one; of a key that is given twice the last counts. */
export const variablesOf = (given: NonNullable<ProjectChange['env_vars']>): Record<string, string> =>
  Array.isArray(given) ? Object.fromEntries(given.map(({ key, value }) => [key, value])) : given;

const reference = (value: string | null | undefined, name: string, key: string) =>
  typeof value === 'string' ? { name, key } : value;

/** Without what was not asked for; undefined where nothing is left. */
function present(patch: Patch): Patch {
  const entries = Object.entries(patch).filter(([, value]) => value !== undefined && !isEmpty(value));
  return Object.fromEntries(entries);
}

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;
