/** JSON schemas of projects. */
import {
  BRANCH,
  CLONED_URL,
  COMMAND,
  DEFAULT_TYPE,
  DNS_LABEL,
  JWT_SECRET_MIN_LENGTH,
  PHASES,
  PLANS,
  PROJECT_NAME_PATTERN,
  PROJECT_TYPES,
  REGIONS,
  REPOSITORY_FOLDER,
  URL_PATH,
} from '@slipway/crds';
import { ENV_TARGETS } from '@slipway/installation';
import Type from 'typebox';
import { Id, MAX_ID, Nullable, oneOf, Time } from '../http/schema.js';
import { MachineProgress } from './snapshot.schema.js';

export const ProjectId = Type.Object({ id: Id('The id of the project.') });
export type ProjectId = Type.Static<typeof ProjectId>;

export const ProjectRef = Type.Object({
  ref: Type.String({ minLength: 1, maxLength: 63, description: 'The name of the Project resource.' }),
});
export type ProjectRef = Type.Static<typeof ProjectRef>;

const ProjectName = Type.String({
  pattern: PROJECT_NAME_PATTERN,
  description: '3-30 lower-case letters, digits and hyphens, the first not a hyphen; unique among your projects.',
  examples: ['my-shop'],
});

export const NewProject = Type.Object(
  {
    name: ProjectName,
    region: Type.Optional(oneOf(REGIONS, { default: 'eu-central', description: 'The region in which it runs.' })),
    plan: Type.Optional(oneOf(PLANS, { default: 'free', description: 'The plan; see /plans.' })),
    backend_type: Type.Optional(
      oneOf(PROJECT_TYPES, { default: DEFAULT_TYPE, description: 'The type; see /backend-types.' }),
    ),
    jwt_secret: Type.Optional(
      Type.String({
        minLength: JWT_SECRET_MIN_LENGTH,
        maxLength: 1024,
        pattern: '^[\\u0020-\\u007e]*$',
        writeOnly: true,
        description: 'Your own JWT secret, so that the keys of a moved app stay valid. Never returned.',
        examples: ['super-secret-jwt-token-with-at-least-32-characters'],
      }),
    ),
  },
  { $id: 'NewProject', additionalProperties: false },
);
export type NewProject = Type.Static<typeof NewProject>;

const EnvName = '^[A-Za-z_][A-Za-z0-9_]{0,127}$';
const EnvValue = Type.String({ maxLength: 32_768, pattern: '^[^\\u0000]*$', description: 'The value.' });
const Target = oneOf(ENV_TARGETS, {
  description:
    'The programs that get the variable: builds, runtime (functions, or the container of an app), or all. ' +
    'Default: all; of an app: runtime.',
});
const EnvVars = Nullable(
  Type.Union([
    Type.Record(Type.String({ pattern: EnvName }), EnvValue, { maxProperties: 200, additionalProperties: false }),
    Type.Array(
      Type.Object(
        {
          key: Type.String({ pattern: EnvName, description: 'The name.' }),
          value: EnvValue,
          target: Type.Optional(Target),
        },
        { additionalProperties: false },
      ),
      { maxItems: 200 },
    ),
  ]),
  {
    description:
      'Environment variables, as an object (preferred) or an array of `{key, value, target}`. They replace ' +
      'all that were set; null removes them. The object form keeps the targets of variables that stay.',
  },
);

const Folder = (description: string, unset: string, example: string) =>
  Nullable(Type.String({ maxLength: 1024, pattern: REPOSITORY_FOLDER.pattern }), {
    description: `${description}, ${REPOSITORY_FOLDER.words}; null: ${unset}.`,
    examples: [example],
  });

const Command = (description: string, example: string) =>
  Nullable(Type.String({ maxLength: 1024, pattern: COMMAND.pattern }), {
    description,
    examples: [example],
  });

export const ProjectChange = Type.Object(
  {
    name: Type.Optional(ProjectName),
    plan: Type.Optional(
      oneOf(PLANS, { description: 'The plan, which your account must be allowed to use; see /plans.' }),
    ),
    retain: Type.Optional(
      Nullable(Type.Boolean(), {
        description:
          'Whether the data stays when the project is deleted. A new project of yours with the same name gets it; ' +
          'null: no.',
      }),
    ),
    repo_url: Type.Optional(
      Nullable(Type.String({ maxLength: 2048, pattern: CLONED_URL.pattern }), {
        description: `Where git clones from: ${CLONED_URL.words}; a token goes into github_token.`,
        examples: ['https://github.com/ada/my-shop.git'],
      }),
    ),
    build_command: Type.Optional(Command('Builds the site; empty: no command; null: detected.', 'npm run build')),
    output_dir: Type.Optional(Folder('The published folder, below `root_dir`', 'detected', 'dist')),
    root_dir: Type.Optional(Folder('The folder in which the commands run', 'the top of the repository', 'apps/web')),
    git_submodules: Type.Optional(
      Nullable(Type.Boolean(), {
        description: 'Whether a build clones the submodules of the repository too; null: no.',
      }),
    ),
    previews: Type.Optional(
      Nullable(Type.Boolean(), { description: 'Whether pushes to other branches build previews; null: no.' }),
    ),
    install_command: Type.Optional(Command('Installs the dependencies; empty: no command; null: detected.', 'npm ci')),
    production_branch: Type.Optional(
      Nullable(Type.String({ maxLength: 255, pattern: BRANCH.pattern }), {
        description: `The deployed branch, ${BRANCH.words}; null: \`main\`.`,
        examples: ['main'],
      }),
    ),
    env_vars: Type.Optional(EnvVars),
    email_notifications: Type.Optional(
      Nullable(Type.Boolean(), {
        description:
          'Mail the owner about deploys, health and quotas, if the address of the owner is verified; null: no.',
      }),
    ),
    slack_webhook: Type.Optional(
      Nullable(Type.String({ maxLength: 2048, pattern: '^https://[A-Za-z0-9][^\\s\\u0000-\\u001f]*$' }), {
        description: 'The Slack webhook that gets notices of deploys, health and quotas; null removes it.',
        examples: ['https://hooks.slack.com/services/T0/B0/x'],
      }),
    ),
    mcp_writes: Type.Optional(
      Nullable(Type.Boolean(), {
        description: 'Whether the tools of MCP may change data; null: no. Then run_sql only reads as service_role.',
      }),
    ),
    suspended: Type.Optional(
      Nullable(Type.Boolean(), {
        description:
          'Suspends the project: none of its services run, and its data is retained; null: no. ' +
          'A suspension by the platform stays.',
      }),
    ),
    forms_enabled: Type.Optional(
      Nullable(Type.Boolean(), { description: 'Whether the hosted site accepts form posts; null: no.' }),
    ),
    health_check_path: Type.Optional(
      Nullable(Type.String({ maxLength: 512, pattern: URL_PATH.pattern }), {
        description:
          'Only of an app: the path that must respond with a status below 400 before requests go to a new version: ' +
          `${URL_PATH.words}; null: its port must accept a connection.`,
        examples: ['/healthz'],
      }),
    ),
    database_project: Type.Optional(
      Nullable(Type.String({ maxLength: 63, pattern: `^${DNS_LABEL}$` }), {
        description:
          'Only of an app: the `ref` of a shared project of yours, whose URL, keys and database URL the container ' +
          'gets as variables; null: none. It needs the scope secrets:read.',
        examples: ['wnxqhkzvmtyfbrgcalpe'],
      }),
    ),
    github_token: Type.Optional(
      Nullable(Type.String({ minLength: 1, maxLength: 1024, pattern: '^[\\u0021-\\u007e]+$', writeOnly: true }), {
        description: 'A git access token, for a private repository. Stored encrypted, never returned; null removes it.',
        examples: ['ghp_example'],
      }),
    ),
    webhook_secret: Type.Optional(
      Type.String({
        minLength: 16,
        maxLength: 256,
        pattern: '^[A-Za-z0-9_.~-]+$',
        description: 'The `token` that the route of `webhook_url` accepts in place of a bearer token.',
        examples: ['a-webhook-secret-of-mine'],
      }),
    ),
  },
  {
    $id: 'ProjectChange',
    additionalProperties: false,
    minProperties: 1,
    description: 'At least one field; null restores the default.',
  },
);
export type ProjectChange = Type.Static<typeof ProjectChange>;

const Status = oneOf(PHASES, { description: 'The phase of the project.' });
const summary = {
  id: Id('The id, in every project route.'),
  ref: Type.String({ description: 'The ref: name of the Project resource, and part of its URL.' }),
  name: Type.String({ description: 'The name, unique among your projects.' }),
  region: oneOf(REGIONS, { description: 'The region in which it runs.' }),
  plan: oneOf(PLANS, { description: 'The plan.' }),
  backend_type: oneOf(PROJECT_TYPES, { description: 'The type.' }),
  status: Status,
  provision_message: Type.String({ maxLength: 500, description: 'The current step, or the problem.' }),
  retain: Type.Boolean({ description: 'Whether its data stays when the project is deleted.' }),
  suspended_by: Nullable(oneOf(['platform', 'owner']), {
    description: 'The party that suspended it. `platform`: an administrator, or kubectl; the owner cannot resume it.',
  }),
  created_at: Time('When it was created.'),
  updated_at: Time('When its settings last changed.'),
  project_url: Type.String({ description: 'The address of its services.' }),
  postgrest_url: Nullable(Type.String(), { description: 'The address of its REST API; null without a database.' }),
  repo_url: Nullable(Type.String(), { description: 'The URL from which git clones.' }),
  build_command: Type.String({ description: 'Builds the site.' }),
  output_dir: Type.String({ description: 'The folder that is published, below `root_dir`.' }),
  root_dir: Type.String({ description: 'The folder in which the commands run; `.`: the top of the repository.' }),
  git_submodules: Type.Boolean({ description: 'Whether a build clones the submodules of the repository too.' }),
  previews: Type.Boolean({ description: 'Whether pushes to other branches build previews.' }),
  install_command: Type.String({ description: 'Installs the dependencies.' }),
  production_branch: Type.String({ description: 'The branch that is deployed.' }),
  email_notifications: Type.Boolean({ description: 'Whether the owner gets mails about deploys, health and quotas.' }),
  mcp_writes: Type.Boolean({ description: 'Whether the tools of MCP may change data.' }),
  forms_enabled: Type.Boolean({ description: 'Whether the hosted site accepts form posts.' }),
  health_check_path: Nullable(Type.String(), {
    description: 'The path that must respond before requests go to a new version of an app; null: its port is enough.',
  }),
  database_project: Nullable(Type.String(), {
    description: 'The `ref` of the project that an app is linked to; null: none.',
  }),
  has_github_token: Type.Boolean({ description: 'Whether a git access token is stored.' }),
};

export const ListedProject = Type.Object(summary, { $id: 'Project', additionalProperties: false });
export type ListedProject = Type.Static<typeof ListedProject>;

const secret = (description: string) =>
  Nullable(Type.String(), {
    description: `${description} Null until it is provisioned, and without the scope \`secrets:read\`.`,
  });

export const FullProject = Type.Object(
  {
    ...summary,
    db_url: secret("A PostgreSQL URL of the project's owner role; null without a database."),
    anon_key: Nullable(Type.String(), {
      description:
        'The key for clients, under row-level security. Null until it is provisioned, and without a database.',
    }),
    service_role_key: secret('The key for servers, past row-level security; null without a database.'),
    webhook_secret: secret('The `token` that the route of `webhook_url` accepts.'),
    webhook_url: secret('The URL that a git host calls to deploy.'),
    env_vars: Nullable(Type.Record(Type.String(), Type.String()), {
      description: 'Environment variables with their values. Null without the scope `secrets:read`.',
    }),
    slack_webhook: Nullable(Type.String(), {
      description:
        'The Slack webhook that gets notices of deploys. Null when there is none, ' +
        'and without the scope `secrets:read`.',
    }),
  },
  { $id: 'FullProject', additionalProperties: false },
);
export type FullProject = Type.Static<typeof FullProject>;

export const EnvVariable = Type.Object(
  { key: Type.String({ description: 'The name.' }), target: Target },
  { $id: 'EnvVariable', additionalProperties: false },
);
export type EnvVariable = Type.Static<typeof EnvVariable>;

export const ProjectQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'The most to return. Default: all.', examples: [50] }),
    ),
    offset: Type.Optional(
      Type.Integer({ minimum: 0, maximum: MAX_ID, description: 'Number of projects to skip. Default: 0.' }),
    ),
    status: Type.Optional(Status),
    name: Type.Optional(Type.String({ maxLength: 30, description: 'Returns only the project of this name.' })),
  },
  { additionalProperties: false },
);
export type ProjectQuery = Type.Static<typeof ProjectQuery>;

const usage = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        used: Type.Integer({ description: 'Bytes in use, in steps of a megabyte.' }),
        limit: Type.Integer({ description: 'The quota in bytes.' }),
      },
      { description },
    ),
  );

export const ProjectStatusAnswer = Type.Object(
  {
    status: Status,
    message: Type.String({ description: 'The current step, or the problem.' }),
    services: Type.Record(
      Type.String(),
      Type.Object({
        up: Type.Boolean({ description: 'True if it answered the last probe.' }),
        status: Type.String({ description: 'running, unavailable, or the service’s own message.' }),
        endpoint: Nullable(Type.String(), { description: 'Its address.' }),
        reason: Type.Optional(Type.String({ description: 'Why it is unavailable, and the setting that opens it.' })),
        image: Type.Optional(Type.String({ description: 'The digest of the image of its container.' })),
        started_at: Type.Optional(Time('When its container was started last.')),
        restarts: Type.Optional(
          Type.Integer({ description: 'The number of times that its process ended and was started again.' }),
        ),
        last_exit_code: Type.Optional(
          Type.Integer({ description: 'The exit code of its process when it ended last.' }),
        ),
        memory_bytes: Type.Optional(Type.Integer({ description: 'Bytes of memory in use, in steps of a megabyte.' })),
      }),
      { description: 'Each service by its name.' },
    ),
    conditions: Type.Array(
      Type.Object({
        type: Type.String({ description: 'The type of the condition.' }),
        status: oneOf(['True', 'False', 'Unknown'], { description: 'The status of the condition.' }),
        reason: Type.String({ description: 'Why, for programs.' }),
        message: Type.String({ description: 'Why, for people.' }),
        last_transition_time: Time('When the status last changed.'),
      }),
      { description: 'The conditions of the resource.' },
    ),
    rotations: Type.Optional(
      Type.Record(Type.String(), oneOf(['in_progress', 'done'], { description: 'The state of the rotation.' }), {
        description: 'The last rotation of each credential, by the name that `POST /projects/{id}/rotate` has for it.',
      }),
    ),
    usage: Type.Optional(
      Type.Object(
        {
          database: usage('Its database.'),
          storage: usage('Its files in storage.'),
          site: usage('The deployments, build caches and build logs of a site.'),
        },
        { description: 'Usage of the quotas of its plan, as far as known.' },
      ),
    ),
    machine: Type.Optional(MachineProgress),
  },
  { $id: 'ProjectStatus', additionalProperties: false },
);
export type ProjectStatusAnswer = Type.Static<typeof ProjectStatusAnswer>;

export const Reprovisioned = Type.Object(
  {
    ok: Type.Literal(true, { description: 'Provisioning restarts.' }),
    server_type: Type.String({ description: 'The requested type of server.' }),
    location: Type.String({ description: 'The requested location.' }),
  },
  { $id: 'Reprovisioned', additionalProperties: false },
);
export type Reprovisioned = Type.Static<typeof Reprovisioned>;
