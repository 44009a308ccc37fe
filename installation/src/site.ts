/**
 * A site's settings of its cluster: one object in the ConfigMap `slipway-site`, read by every program at start. In: its
 * YAML. Out: all settings with defaults, or an error that names each wrong field and its valid values.
 */
import { createRequire } from 'node:module';
import { oneOf, PLACEMENTS, PLANS, type Plan, PROJECT_SERVICES, PROJECT_TYPES, TYPES_OF_ACCOUNTS } from '@slipway/crds';
import Type from 'typebox';
import { parse } from 'yaml';
import { REGISTRATION_PATTERN } from './registration.js';
import { DOMAIN_PATTERN, ORIGIN_PATTERN } from './web-addresses.js';

const require = createRequire(import.meta.url);

/** Variable with the path of the file of the site's settings. If it is set, the program runs on a cluster. */
export const SITE_SETTING = 'SLIPWAY_SITE';

const closed = { additionalProperties: false };
const optional = Type.Optional;
const text = (description: string, options: Record<string, unknown> = {}) =>
  Type.String({ minLength: 1, maxLength: 2048, description, ...options });
/** A Kubernetes quantity in its canonical form, as the API server returns it: `250m`, `1`, `128Mi`, `10Gi`. */
const quantity = (standard: string, description: string) =>
  text(description, { default: standard, pattern: '^[1-9][0-9]*(m|Ki|Mi|Gi|Ti)?$' });

/**
 * Maximum number of pods of a service. With more, a pod's share of the connections of its login role would be too
 * small, because a rollout has one more pod.
 */
export const MOST_PODS = 3;

const Pod = (cpu: string, memory: string, what: string) =>
  Type.Object(
    {
      replicas: Type.Integer({
        default: 1,
        minimum: 1,
        maximum: MOST_PODS,
        description:
          `Number of pods of ${what}. The maximum is ${MOST_PODS}, because all pods of ${what} share the connection ` +
          'limit of one login role.',
      }),
      cpu: quantity(cpu, `CPU request of each pod of ${what}.`),
      memory: quantity(memory, `Memory request and limit of each pod of ${what}.`),
    },
    { ...closed, default: {}, description: `The pods of ${what}.` },
  );

const Database = (cpu: string, memory: string, storage: string, what: string) =>
  Type.Object(
    {
      instances: Type.Integer({
        default: 1,
        minimum: 1,
        maximum: 9,
        description: 'Number of Postgres servers. More than one requires CloudNativePG.',
      }),
      cpu: quantity(cpu, 'CPU request of each Postgres server.'),
      memory: quantity(memory, 'Memory request and limit of each Postgres server.'),
      storage: quantity(storage, 'Size of the volume of each Postgres server.'),
    },
    { ...closed, default: {}, description: what },
  );

const PlanSizes = (ownDatabase: boolean) =>
  Type.Object(
    {
      placement: oneOf(PLACEMENTS, {
        default: 'deployments',
        description:
          'deployments: each project has its own pods for auth and REST. pooled: the data plane, which all projects ' +
          'share, serves auth and REST.',
      }),
      ownDatabase: Type.Boolean({
        default: ownDatabase,
        description:
          'True: each project has its own Postgres server. False: projects of a region share a Postgres server.',
      }),
      auth: Pod('25m', '128Mi', 'auth'),
      rest: Pod('25m', '128Mi', 'rest'),
      database: Database('250m', '512Mi', '10Gi', 'The Postgres of a project with ownDatabase.'),
      quota: Type.Object(
        {
          cpu: quantity('4', 'Maximum sum of the CPU requests of all pods of a project.'),
          memory: quantity('8Gi', 'Maximum sum of the memory limits of all pods of a project.'),
          storage: quantity('100Gi', 'Maximum sum of the sizes of all volumes of a project.'),
          pods: Type.Integer({ default: 20, minimum: 1, description: 'Maximum number of pods of a project.' }),
        },
        { ...closed, default: {}, description: 'Limits of the project’s namespace.' },
      ),
    },
    { ...closed, default: {}, description: 'Resources of projects of the plan.' },
  );

const OWN_DATABASE: Record<Plan, boolean> = { free: false, starter: false, pro: true, team: true, enterprise: true };

const Ingress = Type.Object(
  {
    kind: oneOf(['Ingress', 'HTTPRoute', 'none'], {
      default: 'Ingress',
      description:
        'The objects that route requests to the API and to projects: Ingress; HTTPRoute, of the Gateway API; or ' +
        'none, if you create the routes yourself.',
    }),
    className: optional(
      text('The IngressClass of every Ingress. If unset, the default IngressClass of the cluster applies.'),
    ),
    gateway: optional(
      Type.Object(
        { name: text('The name of the Gateway.'), namespace: text('The namespace of the Gateway.') },
        { ...closed, description: 'The Gateway of an HTTPRoute.' },
      ),
    ),
    annotations: Type.Record(Type.String(), Type.String(), {
      default: {},
      description: 'Annotations of every Ingress or HTTPRoute.',
    }),
    tlsSecretName: optional(
      text(
        'The name of a Secret in slipway-system. It has a wildcard certificate for the host names of all projects, ' +
          'which also covers the host of publicUrl.',
      ),
    ),
    clusterIssuer: optional(
      text(
        'The ClusterIssuer with which cert-manager issues a certificate for each Ingress: for the API, for each ' +
          'project, and for each preview of a site.',
      ),
    ),
  },
  { ...closed, default: {}, description: 'The route of requests to projects.' },
);

const Accounts = Type.Object(
  {
    registration: text(
      'Who may register an account: open, invite, closed, or mail domains separated by commas, such as @example.com.',
      { default: 'invite', pattern: REGISTRATION_PATTERN },
    ),
    plans: Type.Array(oneOf(PLANS), {
      default: ['free'],
      description: 'Plans that an account may use, unless an administrator chose other plans for the account.',
    }),
    types: Type.Array(oneOf(PROJECT_TYPES), {
      default: [...TYPES_OF_ACCOUNTS],
      description: 'Backend types that an account may use, unless an administrator chose other types for the account.',
    }),
    maxProjects: Type.Integer({
      default: 2,
      minimum: 0,
      maximum: 1000,
      description:
        'Maximum number of projects of an account, unless an administrator chose another number for the account.',
    }),
    requestsPerMinute: Type.Integer({
      default: 1200,
      minimum: 0,
      maximum: 1_000_000,
      description:
        'Maximum number of requests per minute of one account to each pod of the management API. The limit of a ' +
        'client network is four times this number. 0 means no limit.',
    }),
  },
  { ...closed, default: {}, description: 'Registration of accounts, and limits of new accounts.' },
);

const Builds = Type.Object(
  {
    image: optional(
      text(
        'Slipway’s image `builder`, which clones repositories and publishes the built sites. If unset, no site is ' +
          'built.',
      ),
    ),
    kaniko: text('The image of Kaniko 1.28 or later, or an image that accepts the same flags.', {
      default: 'ghcr.io/osscontainertools/kaniko:v1.28.0',
    }),
    kanikoArguments: Type.Array(text('A flag, such as --registry-mirror=mirror.example.com.'), {
      default: [],
      description: 'Additional command-line flags of Kaniko.',
    }),
    nodeImage: text('The Node.js image in which sites are built, without a tag.', {
      default: 'docker.io/library/node',
    }),
    nodeTag: text('The tag of builds.nodeImage. {version} stands for the major version of Node.js.', {
      default: '{version}-bookworm-slim',
      pattern: '^[a-zA-Z0-9_{][a-zA-Z0-9_.{}-]*$',
    }),
    atOnce: Type.Integer({
      default: 4,
      minimum: 1,
      maximum: 100,
      description: 'Maximum number of builds that run at the same time.',
    }),
    cpu: quantity('250m', 'CPU request of each container of a build. The CPU limit is 2.'),
    memory: quantity('512Mi', 'Memory request of each container of a build. The memory limit depends on the plan.'),
    userNamespaces: oneOf(['auto', 'always', 'never'], {
      default: 'auto',
      description:
        'always: the pods of builds have their own Linux user namespace (hostUsers: false), so root in a build has ' +
        'no rights on the node. auto: only if all nodes support user namespaces. never: root in a build has the user ' +
        'id of the node’s root.',
    }),
  },
  { ...closed, default: {}, description: 'Builds of sites.' },
);

export const Site = Type.Object(
  {
    publicUrl: text('The URL of the management API.', {
      pattern: '^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$',
    }),
    projectsDomain: optional(
      text(
        'The domain whose subdomains are the host names of projects, <ref>.<domain>. Add a port if projects have ' +
          'another port than publicUrl. With a registrable domain other than that of publicUrl, a project cannot set ' +
          'cookies for the API. If unset, the domain is the host of publicUrl.',
        { pattern: DOMAIN_PATTERN },
      ),
    ),
    corsOrigins: Type.Array(text('An origin, such as https://console.example.com.', { pattern: ORIGIN_PATTERN }), {
      default: [],
      description: 'Other origins whose web pages may call the management API.',
    }),
    databasePublicAddress: optional(
      text(
        'host:port in the db_url of all projects on shared servers. Set it if clients outside the cluster reach the ' +
          'shared Postgres server there.',
        {
          pattern: '^[^:/@]+:[0-9]{1,5}$',
        },
      ),
    ),
    accounts: Accounts,
    openedServices: Type.Array(oneOf(PROJECT_SERVICES), {
      default: [],
      description: 'Services that projects of type shared have in addition to rest, auth and realtime.',
    }),
    images: Type.Object(
      {
        auth: text('The image of GoTrue, or an image that reads the same environment variables.', {
          default: 'supabase/gotrue:v2.197.0',
        }),
        rest: text('The image of PostgREST, or an image that reads the same environment variables.', {
          default: 'postgrest/postgrest:v14.3',
        }),
        postgres: text('The image of Postgres for servers that CloudNativePG does not manage.', {
          default: 'postgres:18',
        }),
        cloudNativePg: text('The image of Postgres 18 or later for servers that CloudNativePG manages.', {
          default: 'ghcr.io/cloudnative-pg/postgresql:18',
        }),
        pullPolicy: oneOf(['IfNotPresent', 'Always', 'Never'], {
          default: 'IfNotPresent',
          description: 'The imagePullPolicy of all containers that the operator creates.',
        }),
        pullSecrets: Type.Array(text('A Secret of type dockerconfigjson in slipway-system, copied to each project.'), {
          default: [],
          description: 'Names of Secrets with credentials for private registries. The Secrets are in slipway-system.',
        }),
      },
      { ...closed, default: {}, description: 'Images of projects.' },
    ),
    ingress: Ingress,
    storageClass: optional(
      text('The StorageClass of every volume. If unset, the default StorageClass of the cluster applies.'),
    ),
    sharedDatabase: Database(
      '250m',
      '1Gi',
      '50Gi',
      'The Postgres that the free and starter projects of a region share.',
    ),
    plans: Type.Object(
      Object.fromEntries(PLANS.map((plan) => [plan, PlanSizes(OWN_DATABASE[plan])])) as Record<
        Plan,
        ReturnType<typeof PlanSizes>
      >,
      { ...closed, default: {}, description: 'Resources of projects by plan.' },
    ),
    rollout: Type.Object(
      {
        batch: Type.Integer({
          default: 5,
          minimum: 1,
          description: 'Maximum number of projects that get a new default image at the same time.',
        }),
      },
      { ...closed, default: {}, description: 'The rollout of a new default image.' },
    ),
    builds: Builds,
    outbound: Type.Object(
      {
        allowedNetworks: Type.Array(text('A CIDR.', { pattern: '^[0-9a-f.:]+/[0-9]{1,3}$' }), {
          default: [],
          description:
            'Private networks that builds may connect to. Link-local addresses and metadata services stay blocked.',
        }),
      },
      { ...closed, default: {}, description: 'Connections to hosts that tenants name.' },
    ),
    blockedAddresses: Type.Array(text('A CIDR.', { pattern: '^[0-9a-f.:]+/[0-9]{1,3}$' }), {
      default: [],
      description:
        'Networks that projects must not reach from their pods, functions, builds and auth, such as the public ' +
        'addresses of nodes. Private networks are blocked anyway, except outbound.allowedNetworks for builds.',
    }),
  },
  { ...closed, description: 'Settings of a site.' },
);
export type Site = Type.Static<typeof Site>;

/** Parses the YAML. Throws an error with a line for each wrong field. */
export function readSite(yaml: string): Site {
  let settings: unknown;
  try {
    settings = parse(yaml);
  } catch (error) {
    throw new Error(`the site settings are not valid YAML: ${(error as Error).message.split('\n')[0]}`);
  }
  // Imported here, because on one machine it would cost every program 0.2 s of processor time and 10 MB.
  const { Value } = require('typebox/value') as typeof import('typebox/value');
  const site = Value.Default(Site, settings ?? {});
  const problems = Value.Errors(Site, site).map(
    ({ instancePath, message }) => `${instancePath.slice(1).replaceAll('/', '.') || 'the settings'} ${message}`,
  );
  if (problems.length > 0) throw new Error(`the site settings are wrong:\n${[...new Set(problems)].join('\n')}`);
  const read = site as Site;
  if (read.ingress.kind === 'HTTPRoute' && !read.ingress.gateway) {
    throw new Error('the site settings are wrong:\ningress.gateway must be set, as ingress.kind is HTTPRoute');
  }
  return read;
}
