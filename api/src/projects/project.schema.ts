/** JSON schemas of projects. */
import {
  BRANCH,
  COMMAND,
  JWT_SECRET_MIN_LENGTH,
  OUTPUT_DIR,
  PHASES,
  PLANS,
  PROJECT_NAME_PATTERN,
  PROJECT_TYPES,
  REGIONS,
  REPO_URL,
} from '@slipway/crds';
import Type from 'typebox';
import { Id, MAX_ID, Nullable, oneOf, Time } from '../http/schema.js';

export const ProjectId = Type.Object({ id: Id('The id of the project.') });
export type ProjectId = Type.Static<typeof ProjectId>;

export const NewProject = Type.Object(
  {
    name: Type.String({
      pattern: PROJECT_NAME_PATTERN,
      description: '3-30 lower-case letters, digits and hyphens, the first not a hyphen; unique among your projects.',
      examples: ['my-shop'],
    }),
    region: Type.Optional(oneOf(REGIONS, { default: 'eu-central', description: 'Where it runs.' })),
    plan: Type.Optional(oneOf(PLANS, { default: 'free', description: 'What it may use.' })),
    backend_type: Type.Optional(
      oneOf(PROJECT_TYPES, { default: 'shared', description: 'What it is; see /backend-types.' }),
    ),
    jwt_secret: Type.Optional(
      Type.String({
        minLength: JWT_SECRET_MIN_LENGTH,
        maxLength: 1024,
        pattern: '^[\\u0020-\\u007e]*$',
        writeOnly: true,
        description: 'A JWT secret of your own, so that an app moves here with its keys. Never returned.',
        examples: ['super-secret-jwt-token-with-at-least-32-characters'],
      }),
    ),
  },
  { $id: 'NewProject', additionalProperties: false },
);
export type NewProject = Type.Static<typeof NewProject>;

const EnvName = '^[A-Za-z_][A-Za-z0-9_]{0,127}$';
const EnvValue = Type.String({ maxLength: 32_768, pattern: '^[^\\u0000]*$', description: 'The value.' });
const EnvVars = Nullable(
  Type.Union([
    Type.Record(Type.String({ pattern: EnvName }), EnvValue, { maxProperties: 200, additionalProperties: false }),
    Type.Array(
      Type.Object(
        { key: Type.String({ pattern: EnvName, description: 'The name.' }), value: EnvValue },
        { additionalProperties: false },
      ),
      { maxItems: 200 },
    ),
  ]),
  {
    description:
      'Environment variables, as an object (preferred) or an array of `{key, value}`. They take the place of all that were set; null removes them.',
  },
);

const Command = (description: string, example: string) =>
  Nullable(Type.String({ minLength: 1, maxLength: 1024, pattern: COMMAND.pattern }), {
    description,
    examples: [example],
  });

export const ProjectChange = Type.Object(
  {
    repo_url: Type.Optional(
      Nullable(Type.String({ maxLength: 2048, pattern: REPO_URL.pattern }), {
        description: `Where git clones from: ${REPO_URL.words}; a token goes into github_token.`,
        examples: ['https://github.com/ada/my-shop.git'],
      }),
    ),
    build_command: Type.Optional(Command('Builds the site; null: `npm run build`.', 'npm run build')),
    output_dir: Type.Optional(
      Nullable(Type.String({ maxLength: 1024, pattern: OUTPUT_DIR.pattern }), {
        description: `What is published, ${OUTPUT_DIR.words}; null: \`dist\`.`,
        examples: ['dist'],
      }),
    ),
    install_command: Type.Optional(Command('Installs what the build needs; null: `npm install`.', 'npm ci')),
    production_branch: Type.Optional(
      Nullable(Type.String({ maxLength: 255, pattern: BRANCH.pattern }), {
        description: `What is deployed, ${BRANCH.words}; null: \`main\`.`,
        examples: ['main'],
      }),
    ),
    env_vars: Type.Optional(EnvVars),
    email_notifications: Type.Optional(
      Nullable(Type.Boolean(), { description: 'Mail the owner when a deploy succeeds or fails; null: no.' }),
    ),
    slack_webhook: Type.Optional(
      Nullable(Type.String({ maxLength: 2048, pattern: '^https://[A-Za-z0-9][^\\s\\u0000-\\u001f]*$' }), {
        description: 'The Slack webhook that is told of deploys; null removes it.',
        examples: ['https://hooks.slack.com/services/T0/B0/x'],
      }),
    ),
    mcp_writes: Type.Optional(
      Nullable(Type.Boolean(), {
        description: 'Whether the tools of MCP may change data; null: no. Then run_sql only reads as service_role.',
      }),
    ),
    forms_enabled: Type.Optional(
      Nullable(Type.Boolean(), { description: 'Whether the hosted site takes form posts; null: no.' }),
    ),
    github_token: Type.Optional(
      Nullable(Type.String({ minLength: 1, maxLength: 1024, pattern: '^[\\u0021-\\u007e]+$', writeOnly: true }), {
        description: 'A git access token, for a private repository. Kept encrypted, never returned; null removes it.',
        examples: ['ghp_example'],
      }),
    ),
    webhook_secret: Type.Optional(
      Type.String({
        minLength: 16,
        maxLength: 256,
        pattern: '^[A-Za-z0-9_.~-]+$',
        description: 'The `token` that the deploy route takes in place of a bearer token.',
        examples: ['a-webhook-secret-of-mine'],
      }),
    ),
  },
  {
    $id: 'ProjectChange',
    additionalProperties: false,
    minProperties: 1,
    description: 'At least one field; null puts the default back.',
  },
);
export type ProjectChange = Type.Static<typeof ProjectChange>;

const Status = oneOf(PHASES, { description: 'The state in one word.' });
const summary = {
  id: Id('The id, in every project route.'),
  ref: Type.String({ description: 'The name of the Project resource, its host name and the last part of its URL.' }),
  name: Type.String({ description: 'As you gave it.' }),
  region: oneOf(REGIONS, { description: 'Where it runs.' }),
  plan: oneOf(PLANS, { description: 'What it may use.' }),
  backend_type: oneOf(PROJECT_TYPES, { description: 'What it is.' }),
  status: Status,
  provision_message: Type.String({ maxLength: 500, description: 'The current step, or what is wrong.' }),
  created_at: Time('When it was created.'),
  updated_at: Time('When its settings last changed.'),
  project_url: Type.String({ description: 'The address of its services.' }),
  postgrest_url: Nullable(Type.String(), { description: 'The address of its REST API; null without a database.' }),
  repo_url: Nullable(Type.String(), { description: 'Where git clones from.' }),
  build_command: Type.String({ description: 'Builds the site.' }),
  output_dir: Type.String({ description: 'The folder that is published.' }),
  install_command: Type.String({ description: 'Installs what the build needs.' }),
  production_branch: Type.String({ description: 'The branch that is deployed.' }),
  email_notifications: Type.Boolean({ description: 'Whether the owner is mailed of deploys.' }),
  mcp_writes: Type.Boolean({ description: 'Whether the tools of MCP may change data.' }),
  forms_enabled: Type.Boolean({ description: 'Whether the hosted site takes form posts.' }),
  has_github_token: Type.Boolean({ description: 'Whether a git access token is kept.' }),
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
    db_url: secret("A PostgreSQL URL of the project's owner role."),
    anon_key: Nullable(Type.String(), {
      description: 'The key for clients, under row-level security. Null until it is provisioned.',
    }),
    service_role_key: secret('The key for servers, past row-level security.'),
    webhook_secret: secret('The `token` that the deploy route takes.'),
    webhook_url: secret('What a git host calls to deploy.'),
    env_vars: Nullable(Type.Record(Type.String(), Type.String()), {
      description: 'Environment variables with their values. Null without the scope `secrets:read`.',
    }),
    slack_webhook: Nullable(Type.String(), {
      description:
        'The Slack webhook that is told of deploys. Null when there is none, and without the scope `secrets:read`.',
    }),
  },
  { $id: 'FullProject', additionalProperties: false },
);
export type FullProject = Type.Static<typeof FullProject>;

export const ProjectQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'At most so many. Default: all.', examples: [50] }),
    ),
    offset: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_ID, description: 'Skip so many. Default: 0.' })),
    status: Type.Optional(Status),
    name: Type.Optional(Type.String({ maxLength: 30, description: 'Only the one of this name.' })),
  },
  { additionalProperties: false },
);
export type ProjectQuery = Type.Static<typeof ProjectQuery>;

export const ProjectStatusAnswer = Type.Object(
  {
    status: Status,
    message: Type.String({ description: 'The current step, or what is wrong.' }),
    services: Type.Record(
      Type.String(),
      Type.Object({
        up: Type.Boolean({ description: 'Whether it answered when last asked.' }),
        status: Type.String({ description: 'running, unavailable, or what it said.' }),
        endpoint: Nullable(Type.String(), { description: 'Its address.' }),
      }),
      { description: 'Each service by its name.' },
    ),
    conditions: Type.Array(
      Type.Object({
        type: Type.String({ description: 'What it speaks of.' }),
        status: oneOf(['True', 'False', 'Unknown'], { description: 'Whether it holds.' }),
        reason: Type.String({ description: 'Why, for programs.' }),
        message: Type.String({ description: 'Why, for people.' }),
        last_transition_time: Time('When the status last changed.'),
      }),
      { description: 'As on the resource.' },
    ),
  },
  { $id: 'ProjectStatus', additionalProperties: false },
);
export type ProjectStatusAnswer = Type.Static<typeof ProjectStatusAnswer>;

export const Reprovisioned = Type.Object(
  {
    ok: Type.Literal(true, { description: 'It begins anew.' }),
    server_type: Type.String({ description: 'The type of server that is asked for.' }),
    location: Type.String({ description: 'Where it is asked for.' }),
  },
  { $id: 'Reprovisioned', additionalProperties: false },
);
export type Reprovisioned = Type.Static<typeof Reprovisioned>;
