import Type from 'typebox';
import { BRANCH_MAX_LENGTH, BUILD_NAME_MAX_LENGTH } from './build.js';
import { DNS_LABEL, REF_MAX_LENGTH } from './names.js';
import { PLACEMENTS } from './placement.js';
import { PLANS } from './plans.js';
import { MachineAnswers, MachineRequests, MachineSeen } from './project-machine.js';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf, rule, secretKey, Time } from './schema.js';
import { BRANCH, COMMAND, REPO_URL, REPOSITORY_FOLDER, type TextForm, URL_PATH } from './text-forms.js';
import { DEFAULT_TYPE, PROJECT_TYPES } from './types.js';

/** Normalises an e-mail address for comparison: `Ada@Example.com` and `ada@example.com` are the same account. */
export const normalAddress = (address: string): string => address.trim().toLowerCase();
export const REGIONS = ['eu-central', 'eu-west', 'eu-north', 'us-east', 'us-west', 'ap-south'] as const;
export type Region = (typeof REGIONS)[number];
export const PHASES = ['provisioning', 'healthy', 'error', 'suspended', 'deleting'] as const;
export type Phase = (typeof PHASES)[number];

export const PROJECT_NAME_PATTERN = '^[a-z0-9][a-z0-9-]{2,29}$';
export const DELETION_POLICIES = ['Delete', 'Retain'] as const;
/** Maximum length of status.message in characters. */
export const MESSAGE_MAX_LENGTH = 500;
/** Minimum length of a JWT secret in characters, because HS256 requires 256 bits (RFC 7518, 3.2). */
export const JWT_SECRET_MIN_LENGTH = 32;

/**
 * Makes a validation rule of a text form. A `pattern` would repeat the value, which may contain a secret, in its error.
 */
const ofForm = ({ pattern, words }: TextForm, fix = '') => ({
  'x-kubernetes-validations': [rule(`self.matches(${JSON.stringify(pattern)})`, `must be ${words}${fix}`)],
});

const Source = Type.Object(
  {
    repoUrl: Type.Optional(
      Type.String({
        maxLength: 2048,
        description: 'The URL of the repository.',
        ...ofForm(REPO_URL, ': put a token into the Secret that tokenSecretRef names'),
      }),
    ),
    productionBranch: Type.Optional(
      Type.String({
        default: 'main',
        minLength: 1,
        maxLength: 255,
        description: 'The production branch.',
        ...ofForm(BRANCH),
      }),
    ),
    previews: Type.Optional(
      Type.Boolean({ description: 'True to build previews of other branches when they are pushed. Default: false.' }),
    ),
    submodules: Type.Optional(
      Type.Boolean({ description: 'True to clone the submodules of the repository too. Default: false.' }),
    ),
    tokenSecretRef: Type.Optional(secretKey('The git access token of a private repository.', 'token')),
    deployKeySecretRef: Type.Optional(
      secretKey('The private SSH key whose public key is a deploy key of the repository.', 'deploy-key'),
    ),
  },
  { description: 'The git repository of a frontend or app project.' },
);

const folder = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...ofForm(REPOSITORY_FOLDER) }));

/** Has no default, because a build detects the commands that a project does not set. */
const command = (description: string) =>
  Type.Optional(Type.String({ maxLength: 1024, description, ...ofForm(COMMAND) }));

const Build = Type.Object(
  {
    installCommand: command('The command that installs packages. Empty: no command runs. Default: detected.'),
    buildCommand: command('The command that builds the site. Empty: no command runs. Default: detected.'),
    outputDir: folder('The folder to publish, relative to rootDir. Default: detected.'),
    rootDir: folder('The folder in which the commands run, for a monorepo. Default: the top of the repository.'),
  },
  { description: 'Configures the build of the site.' },
);

const App = Type.Object(
  {
    healthCheckPath: Type.Optional(
      Type.String({
        maxLength: 512,
        description:
          'The path that must respond with a status below 400 before requests go to a new version. ' +
          'Default: the port must accept a connection.',
        ...ofForm(URL_PATH),
      }),
    ),
    restart: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 2147483647,
        description: 'A changed number starts the container again, without a gap.',
      }),
    ),
    databaseProject: Type.Optional(
      Type.String({
        maxLength: 63,
        pattern: `^${DNS_LABEL}$`,
        description:
          'The metadata.name of a shared project of the same owner, whose URL, keys and database URL the container ' +
          'gets as variables. Default: none.',
      }),
    ),
  },
  { description: 'Configures the container of an app project.' },
);

const rotation = (what: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 2147483647, description: `A changed number rotates ${what}.` }));

export const ProjectSpec = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        pattern: PROJECT_NAME_PATTERN,
        description: "The display name, unique among the owner's projects. Default: metadata.name.",
      }),
    ),
    owner: Type.String({
      format: 'email',
      minLength: 3,
      maxLength: 320,
      description: 'The e-mail address of the account that owns the project.',
    }),
    type: Type.Optional(
      oneOf(PROJECT_TYPES, {
        default: DEFAULT_TYPE,
        description:
          'shared: a database on a shared cluster; dedicated: a VM; frontend: a hosted site; app: a container.',
        'x-kubernetes-validations': [rule('self == oldSelf', 'type is immutable')],
      }),
    ),
    region: Type.Optional(
      oneOf(REGIONS, {
        default: 'eu-central',
        description: 'The region that the project runs in.',
        'x-kubernetes-validations': [rule('self == oldSelf', 'region is immutable')],
      }),
    ),
    plan: Type.Optional(oneOf(PLANS, { default: 'free', description: 'The plan: resources, limits and placement.' })),
    source: Type.Optional(Source),
    build: Type.Optional(Build),
    app: Type.Optional(App),
    machine: Type.Optional(MachineRequests),
    env: Type.Optional(
      Type.Object(
        {
          secretRef: Type.Object(
            {
              name: Type.String({
                minLength: 1,
                maxLength: 253,
                description: "The Secret's name, in the project's namespace.",
              }),
            },
            { description: 'The Secret with the variables.' },
          ),
        },
        { description: 'Environment variables. Each key of the Secret is the name of a variable.' },
      ),
    ),
    notifications: Type.Optional(
      Type.Object(
        {
          email: Type.Optional(
            Type.Boolean({ description: 'True to send the owner an e-mail when a deploy succeeds or fails.' }),
          ),
          slackWebhookSecretRef: Type.Optional(
            secretKey('The URL of a Slack webhook for notices about deploys.', 'slack-webhook'),
          ),
        },
        { description: 'Receivers of notices about deploys.' },
      ),
    ),
    mcpWrites: Type.Optional(
      Type.Boolean({
        description:
          'True to allow the tools of MCP to change data. ' +
          'Otherwise run_sql only reads, and no tool creates or deletes a user.',
      }),
    ),
    formsEnabled: Type.Optional(Type.Boolean({ description: 'True if the hosted site accepts form posts.' })),
    suspend: Type.Optional(
      Type.Boolean({
        description:
          'True if the platform suspends the project: nothing of it runs, and its data stays. ' +
          'Only administrators and kubectl set it.',
      }),
    ),
    suspendedByOwner: Type.Optional(
      Type.Boolean({
        description: 'True if the owner suspends the project, with the same effect as suspend. Set over REST.',
      }),
    ),
    deletionPolicy: Type.Optional(
      oneOf(DELETION_POLICIES, {
        default: 'Delete',
        description:
          'Delete: the data is deleted with the project. ' +
          'Retain: the database stays, and a new project with the same name and owner gets it.',
      }),
    ),
    rotation: Type.Optional(
      Type.Object(
        {
          databasePasswords: rotation('the passwords of the database'),
          jwtSecret: rotation('the JWT secret, and with it the API keys'),
          apiKeys: rotation('the API keys'),
        },
        { description: 'Rotates credentials when a number changes.' },
      ),
    ),
    jwtSecretRef: Type.Optional(
      secretKey(
        'A JWT secret of the owner (at least 32 characters), so that tokens and keys issued elsewhere stay valid. ' +
          'Without it, the operator generates a secret.',
        'secret',
      ),
    ),
  },
  { description: 'The desired state.' },
);

const Service = Type.Object({
  up: Type.Boolean({ description: 'True if the service answered the last probe.' }),
  status: Type.String({ maxLength: 64, description: 'running, unavailable, or the state that the service reported.' }),
  endpoint: Type.Optional(Type.String({ maxLength: 2048, description: 'Its address.' })),
  reason: Type.Optional(
    Type.String({ maxLength: 512, description: 'The reason if unavailable, and the setting that enables it.' }),
  ),
  image: Type.Optional(Type.String({ maxLength: 128, description: 'The digest of the image of its container.' })),
  startedAt: Type.Optional(Time('The time when its container was started last.')),
  restarts: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The number of times that its process ended and was started again.' }),
  ),
  lastExitCode: Type.Optional(Type.Integer({ description: 'The exit code of its process when it ended last.' })),
  memoryBytes: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Bytes of memory in use, in steps of a megabyte.' }),
  ),
});

const usage = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        used: Type.Integer({ minimum: 0, description: 'Bytes in use, in steps of a megabyte.' }),
        limit: Type.Integer({ minimum: 0, description: 'Bytes that the plan allows.' }),
      },
      { description },
    ),
  );

/** Maximum number of previews of a project, on any plan. */
export const MOST_PREVIEWS = 40;

const Preview = Type.Object({
  branch: Type.String({ maxLength: BRANCH_MAX_LENGTH, description: 'The branch of the preview.' }),
  url: Type.String({ maxLength: 2048, description: 'Its address.' }),
  build: Type.String({ maxLength: BUILD_NAME_MAX_LENGTH, description: 'The Build that made the preview.' }),
  commit: Type.Optional(Type.String({ maxLength: 64, description: 'The commit of the preview.' })),
});

export const ProjectStatus = Type.Object(
  {
    phase: Type.Optional(oneOf(PHASES, { description: 'The state in one word.' })),
    message: Type.Optional(
      Type.String({ maxLength: MESSAGE_MAX_LENGTH, description: 'The current step, or the problem.' }),
    ),
    observedGeneration: Type.Optional(
      Type.Integer({ description: 'The metadata.generation that this status describes.' }),
    ),
    url: Type.Optional(Type.String({ maxLength: 2048, description: 'The URL of the project’s services.' })),
    upstream: Type.Optional(
      Type.String({
        maxLength: 300,
        description: 'The address to which the data plane forwards requests for an app, `host:port`.',
      }),
    ),
    databaseLink: Type.Optional(
      Type.Object(
        {
          project: Type.String({ maxLength: 63, description: 'The name of the linked project.' }),
          addresses: Type.Array(Type.String({ maxLength: 64 }), {
            maxItems: 2,
            description: 'The addresses of the containers.',
          }),
        },
        { description: 'The project that the containers of an app reach. The data plane admits them to no other.' },
      ),
    ),
    placement: Type.Optional(
      oneOf(PLACEMENTS, { description: 'Where auth and rest run: in own pods, or in the shared data plane.' }),
    ),
    services: Type.Optional(
      Type.Record(Type.String(), Service, { description: 'The state of each service, by name.' }),
    ),
    server: Type.Optional(MachineSeen),
    machine: Type.Optional(MachineAnswers),
    usage: Type.Optional(
      Type.Object(
        {
          database: usage('The size of the database, if projects share its Postgres.'),
          storage: usage('The size of the files in storage.'),
          site: usage('The size of a site’s deployments, build caches and build logs.'),
        },
        { description: 'Bytes in use for each limit of the plan, as last observed.' },
      ),
    ),
    previews: Type.Optional(
      Type.Array(Preview, { maxItems: MOST_PREVIEWS, description: 'The served previews, newest first.' }),
    ),
    currentBuild: Type.Optional(Type.String({ maxLength: 253, description: 'The Build whose output is live.' })),
    conditions: Conditions,
  },
  { description: 'The state that the operator last observed.' },
);

export type ProjectSpec = Type.Static<typeof ProjectSpec>;
export type ProjectStatus = Type.Static<typeof ProjectStatus>;
export type Project = KubernetesObject<'Project', ProjectSpec, ProjectStatus>;

/** True if the project should be suspended, even if parts of it still run. */
export const isSuspended = ({ spec }: Pick<Project, 'spec'>): boolean =>
  spec.suspend === true || spec.suspendedByOwner === true;

export const projectDefinition: ResourceDefinition = {
  kind: 'Project',
  plural: 'projects',
  singular: 'project',
  shortNames: ['proj'],
  scope: 'Cluster',
  description: 'A backend: a database with auth and REST, a hosted site, an app, or a VM.',
  spec: ProjectSpec,
  status: ProjectStatus,
  validations: [
    rule(
      `self.metadata.name.size() <= ${REF_MAX_LENGTH} && self.metadata.name.matches('^${DNS_LABEL}$')`,
      `metadata.name is the project's host name: at most ${REF_MAX_LENGTH} lowercase letters, digits and hyphens`,
    ),
  ],
  columns: [
    { name: 'Display-Name', type: 'string', jsonPath: '.spec.name' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'Plan', type: 'string', jsonPath: '.spec.plan' },
    { name: 'Region', type: 'string', jsonPath: '.spec.region' },
    { name: 'URL', type: 'string', jsonPath: '.status.url' },
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.message', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
