import Type from 'typebox';
import { REF_MAX_LENGTH } from './names.js';
import { PLACEMENTS } from './placement.js';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf, rule, secretKey } from './schema.js';
import { BRANCH, COMMAND, OUTPUT_DIR, REPO_URL, type TextForm } from './text-forms.js';

export const PROJECT_TYPES = ['shared', 'dedicated', 'frontend', 'app'] as const;
export type ProjectType = (typeof PROJECT_TYPES)[number];
export const REGIONS = ['eu-central', 'eu-west', 'eu-north', 'us-east', 'us-west', 'ap-south'] as const;
export type Region = (typeof REGIONS)[number];
export const PLANS = ['free', 'starter', 'pro', 'team', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];
export const PHASES = ['provisioning', 'healthy', 'error', 'suspended', 'deleting'] as const;
export type Phase = (typeof PHASES)[number];

export const PROJECT_NAME_PATTERN = '^[a-z0-9][a-z0-9-]{2,29}$';
export const DELETION_POLICIES = ['Delete', 'Retain'] as const;
/** status.message holds at most this many characters. */
export const MESSAGE_MAX_LENGTH = 500;
/** A JWT secret shorter than this is refused, as HS256 wants 256 bits (RFC 7518, 3.2). */
export const JWT_SECRET_MIN_LENGTH = 32;

/** A rule, not a `pattern`: its refusal is in words, and does not repeat a value that may hold a secret. */
const ofForm = ({ pattern, words }: TextForm, fix = '') => ({
  'x-kubernetes-validations': [rule(`self.matches(${JSON.stringify(pattern)})`, `must be ${words}${fix}`)],
});

const Source = Type.Object(
  {
    repoUrl: Type.Optional(
      Type.String({
        maxLength: 2048,
        description: 'Where git clones from.',
        ...ofForm(REPO_URL, ': a token goes into the Secret that tokenSecretRef names'),
      }),
    ),
    productionBranch: Type.Optional(
      Type.String({
        default: 'main',
        minLength: 1,
        maxLength: 255,
        description: 'The branch that is deployed.',
        ...ofForm(BRANCH),
      }),
    ),
    tokenSecretRef: Type.Optional(secretKey('The git access token, for a private repository.', 'token')),
  },
  { description: 'The git repository of a frontend or app project.' },
);

const command = (standard: string, description: string) =>
  Type.Optional(Type.String({ default: standard, minLength: 1, maxLength: 1024, description, ...ofForm(COMMAND) }));

const Build = Type.Object(
  {
    installCommand: command('npm install', 'Installs what the build needs.'),
    buildCommand: command('npm run build', 'Builds the site.'),
    outputDir: Type.Optional(
      Type.String({
        default: 'dist',
        minLength: 1,
        maxLength: 1024,
        description: 'The folder that is published.',
        ...ofForm(OUTPUT_DIR),
      }),
    ),
  },
  { description: 'How the source becomes a site.' },
);

const rotation = (what: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 2147483647, description: `Another number rotates ${what}.` }));

export const ProjectSpec = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        pattern: PROJECT_NAME_PATTERN,
        description: "The name its owner gave it, unique among the owner's projects. Default: metadata.name.",
      }),
    ),
    owner: Type.String({
      format: 'email',
      minLength: 3,
      maxLength: 320,
      description: 'The e-mail address of the account that sees the project over REST.',
    }),
    type: Type.Optional(
      oneOf(PROJECT_TYPES, {
        default: 'shared',
        description:
          'shared: a database on a shared cluster; dedicated: a VM; frontend: a hosted site; app: a container.',
        'x-kubernetes-validations': [rule('self == oldSelf', 'type is immutable')],
      }),
    ),
    region: Type.Optional(
      oneOf(REGIONS, {
        default: 'eu-central',
        description: 'Where it runs.',
        'x-kubernetes-validations': [rule('self == oldSelf', 'region is immutable')],
      }),
    ),
    plan: Type.Optional(oneOf(PLANS, { default: 'free', description: 'What it may use.' })),
    source: Type.Optional(Source),
    build: Type.Optional(Build),
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
            { description: 'The Secret that holds them.' },
          ),
        },
        { description: 'Environment variables: each key of the Secret is one.' },
      ),
    ),
    notifications: Type.Optional(
      Type.Object(
        {
          email: Type.Optional(Type.Boolean({ description: 'Mail the owner when a deploy succeeds or fails.' })),
          slackWebhookSecretRef: Type.Optional(
            secretKey('The Slack webhook that is told of deploys.', 'slack-webhook'),
          ),
        },
        { description: 'Who is told of deploys.' },
      ),
    ),
    mcpWrites: Type.Optional(
      Type.Boolean({
        description:
          'Whether the tools of MCP may change data. Without it, run_sql only reads, and no user is created or deleted.',
      }),
    ),
    formsEnabled: Type.Optional(Type.Boolean({ description: 'Whether the hosted site takes form posts.' })),
    suspend: Type.Optional(
      Type.Boolean({ description: 'Whether it is to stand still: nothing of it runs, and its data stays.' }),
    ),
    deletionPolicy: Type.Optional(
      oneOf(DELETION_POLICIES, {
        default: 'Delete',
        description:
          'Delete: its data goes with it; Retain: its database stays, and a project of the same name and owner has it again.',
      }),
    ),
    rotation: Type.Optional(
      Type.Object(
        {
          databasePasswords: rotation('the passwords of its database'),
          jwtSecret: rotation('the JWT secret, and with it the API keys'),
          apiKeys: rotation('the API keys'),
        },
        { description: 'Credentials are made anew when a number here becomes another.' },
      ),
    ),
    jwtSecretRef: Type.Optional(
      secretKey(
        'A JWT secret of the owner’s own (at least 32 characters), so that tokens and keys issued elsewhere stay valid. ' +
          'Without it the operator makes one.',
        'secret',
      ),
    ),
  },
  { description: 'What the owner wants.' },
);

const Service = Type.Object({
  up: Type.Boolean({ description: 'Whether it answered when last asked.' }),
  status: Type.String({ maxLength: 64, description: 'running, unavailable, or what it said.' }),
  endpoint: Type.Optional(Type.String({ maxLength: 2048, description: 'Its address.' })),
});

export const ProjectStatus = Type.Object(
  {
    phase: Type.Optional(oneOf(PHASES, { description: 'The state in one word.' })),
    message: Type.Optional(
      Type.String({ maxLength: MESSAGE_MAX_LENGTH, description: 'The current step, or what is wrong.' }),
    ),
    observedGeneration: Type.Optional(Type.Integer({ description: 'The metadata.generation that this status is of.' })),
    url: Type.Optional(Type.String({ maxLength: 2048, description: 'The address of the project’s services.' })),
    placement: Type.Optional(
      oneOf(PLACEMENTS, { description: 'Where auth and rest answer from: pods of its own, or the shared data plane.' }),
    ),
    services: Type.Optional(Type.Record(Type.String(), Service, { description: 'Each service by name.' })),
    server: Type.Optional(
      Type.Object(
        {
          id: Type.Optional(Type.String({ maxLength: 64, description: "The provider's id of it." })),
          type: Type.Optional(Type.String({ maxLength: 64, description: 'The server type.' })),
          location: Type.Optional(Type.String({ maxLength: 64, description: 'Where it stands.' })),
          address: Type.Optional(Type.String({ maxLength: 64, description: 'Its public address.' })),
        },
        { description: 'The VM of a dedicated project.' },
      ),
    ),
    currentBuild: Type.Optional(Type.String({ maxLength: 253, description: 'The Build that is served.' })),
    conditions: Conditions,
  },
  { description: 'What the operator last saw.' },
);

export type ProjectSpec = Type.Static<typeof ProjectSpec>;
export type ProjectStatus = Type.Static<typeof ProjectStatus>;
export type Project = KubernetesObject<'Project', ProjectSpec, ProjectStatus>;

export const projectDefinition: ResourceDefinition = {
  kind: 'Project',
  plural: 'projects',
  singular: 'project',
  shortNames: ['proj'],
  scope: 'Cluster',
  description: 'A backend of its own: a database with auth and REST, a hosted site, an app, or a VM.',
  spec: ProjectSpec,
  status: ProjectStatus,
  validations: [
    rule(
      `self.metadata.name.size() <= ${REF_MAX_LENGTH} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
      `metadata.name is the project's host name: at most ${REF_MAX_LENGTH} lowercase letters, digits and hyphens`,
    ),
  ],
  columns: [
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
