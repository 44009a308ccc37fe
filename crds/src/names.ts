/**
 * Every name that more than one program must agree on. A project's ref is `metadata.name` of its Project: a DNS label,
 * its host name, and the suffix of all that it owns.
 */
export const GROUP = 'slipway.dev';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

/** Where the platform's own objects live: leases, and the events of cluster-scoped objects are in `default`. */
export const SYSTEM_NAMESPACE = 'slipway-system';
/**
 * The programs on a cluster: their Deployments (realtime, storage, functions and postgres: StatefulSets) and Services,
 * there.
 */
export const PROGRAMS = {
  operator: 'slipway-operator',
  api: 'slipway-api',
  dataplane: 'slipway-dataplane',
  realtime: 'slipway-realtime',
  storage: 'slipway-storage',
  functions: 'slipway-functions',
  postgres: 'slipway-postgres',
} as const;
/**
 * Secrets in SYSTEM_NAMESPACE that the operator makes where they are missing. `url`, set by the site, names its own
 * Postgres.
 */
export const POSTGRES_SECRET = { name: PROGRAMS.postgres, password: 'password', url: 'url' } as const;
export const API_SECRET = {
  name: PROGRAMS.api,
  databaseUrl: 'database-url',
  jwtSecret: 'jwt-secret',
  encryptionKeys: 'encryption-keys.json',
} as const;
/** The one-time code with which the first administrator registers. The operator makes the Secret. */
export const SETUP_SECRET = { name: 'slipway-setup', code: 'code' } as const;
/** The bearer token of the functions control port: only the operator, which makes it, and the API have it. */
export const FUNCTIONS_SECRET = { name: PROGRAMS.functions, token: 'token' } as const;
/** Where a pod of functions is told which to serve; the URLs of those pods name the port for calls. */
export const FUNCTIONS_CONTROL_PORT = 8081;
/** The variables that name the pods of a service. */
export const POD_URLS_SETTINGS = {
  realtime: 'SLIPWAY_REALTIME_URLS',
  storage: 'SLIPWAY_STORAGE_URLS',
  functions: 'SLIPWAY_FUNCTIONS_URLS',
} as const;
/** Held by the operator that leads; the API's health reads it. */
export const OPERATOR_LEASE = 'slipway-operator';

/** Where the Postgres clusters are that projects share, one for each region that has projects. */
export const DATA_NAMESPACE = 'slipway-data';
export const sharedClusterOf = (region: string) => `shared-${region}`;
/** The ConfigMap of `Site`, in SYSTEM_NAMESPACE. */
export const SITE_CONFIG = { name: 'slipway-site', key: 'site.yaml' } as const;
/** The manager of our fields in applied objects. */
export const FIELD_MANAGER = 'slipway-operator';

/** The longest ref. `p-<ref>` and the role names of projects of earlier releases stay under 63 characters. */
export const REF_MAX_LENGTH = 39;
/** The length of a ref that REST makes: lowercase letters alone, the form that Supabase's own tools accept. */
export const RANDOM_REF_LENGTH = 20;

export const LABEL_PROJECT = 'slipway.dev/project';
export const LABEL_PART = 'slipway.dev/part';
/** On the pods of a Postgres cluster: its name. */
export const LABEL_CLUSTER = 'slipway.dev/cluster';
export const LABEL_MANAGED_BY = 'app.kubernetes.io/managed-by';
export const MANAGED_BY = 'slipway';
/**
 * LABEL_PART of a project's pods on a cluster, and where each answers in the project's namespace, rest's probes at a
 * port of their own.
 */
export const PART_AUTH = 'auth';
export const PART_REST = 'rest';
export const PART_POSTGRES = 'postgres';
export const DEPLOYED_SERVICES = {
  auth: { service: PART_AUTH, port: 9999 },
  rest: { service: PART_REST, port: 3000, adminPort: 3001 },
} as const;
/**
 * LABEL_PART of the ConfigMaps that hold an EdgeFunction's versions, one each: `<name>-v<version>` with the key `code`.
 */
export const PART_FUNCTION_VERSION = 'function-version';
export const LABEL_FUNCTION = 'slipway.dev/function';
export const LABEL_FUNCTION_VERSION = 'slipway.dev/function-version';
export const functionVersionName = (name: string, version: number) => `${name}-v${version}`;
/** On a Project until its engine has let go of all that garbage collection can't reach. */
export const FINALIZER = 'slipway.dev/engine';
/** Changing its value makes the operator provision again. */
export const ANNOTATION_REPROVISION = 'slipway.dev/reprovision';

/**
 * On the Secret of a project's database: the address that it was made for, `host:port/database …`, whatever is in it
 * since.
 */
export const ANNOTATION_ADDRESS = 'slipway.dev/address';

/** On what stays of a project whose data is retained: `true`, and for whom. */
export const LABEL_RETAINED = 'slipway.dev/retained';
export const ANNOTATION_RETAINED_FOR = 'slipway.dev/retained-for';

export const namespaceOf = (ref: string) => `p-${ref}`;

/**
 * The names of a project's database, login roles and replication slot come from its database id. Every login of a
 * Postgres server can read these names, so the id of a new project is random and says nothing about the project. An
 * earlier release derived the names from the ref: such a project keeps its ref as its database id.
 */
export const databaseOf = (databaseId: string) => `p-${databaseId}`;
export const databaseIdIn = (database: string) => database.slice(databaseOf('').length);
export const ownerRole = (databaseId: string) => `postgres.${databaseId}`;
export const authenticatorRole = (databaseId: string) => `authenticator.${databaseId}`;
export const authAdminRole = (databaseId: string) => `auth_admin.${databaseId}`;

/** Group roles without login that every project shares; policies and grants name them as on Supabase. */
export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;
export type ApiRole = (typeof API_ROLES)[number];

/**
 * Reads the write-ahead log of every tenant's database, for realtime. A login of the platform's alone: no tenant may
 * ever have it, as whoever has it can stream the whole cluster. Its password is in REPLICATION_SECRET, in
 * SYSTEM_NAMESPACE.
 */
export const REPLICATION_ROLE = 'slipway_realtime';
export const REPLICATION_SECRET = { name: 'slipway-realtime', password: 'password' } as const;
/**
 * Returns the name of a project's replication slot. The project has one slot, while a client listens to its changes.
 */
export const replicationSlotOf = (databaseId: string) => `realtime_${databaseId.replaceAll('-', '_')}`;

/**
 * Connections to a project's database that the data plane's services hold as its authenticator, each from one pod, and
 * that MCP's SQL that only reads holds (two of each API replica): what is left of that role's limit is for REST,
 * wherever it runs.
 */
export const CONNECTIONS_AS_AUTHENTICATOR = { storage: 3, realtime: 3, mcp: 4 } as const;

/** Secrets in the project's namespace, each labelled LABEL_PROJECT=<ref>, and their keys. Values are plain text. */
export const SECRETS = {
  /** Made by the operator. */
  keys: {
    name: 'project-keys',
    jwtSecret: 'jwt-secret',
    /**
     * While keys are rotated: the secret that is about to sign, and the one that signed before; tokens of all three are
     * good.
     */
    nextJwtSecret: 'next-jwt-secret',
    previousJwtSecret: 'previous-jwt-secret',
    anonKey: 'anon-key',
    serviceRoleKey: 'service-role-key',
    webhookSecret: 'webhook-secret',
    /** The numbers of spec.rotation that these credentials are of. */
    jwtSecretRotation: 'rotation-jwt-secret',
    /** The number that the next secret was made for. */
    nextJwtSecretRotation: 'next-rotation-jwt-secret',
    apiKeysRotation: 'rotation-api-keys',
  },
  /** Made by the operator: how each party logs in to the project's database. */
  database: {
    name: 'project-database',
    /** Address for programs inside: a host name, or the directory of a Unix socket. */
    host: 'host',
    port: 'port',
    database: 'database',
    /** The database id. A project of an earlier release has no such key: its ref is the id. */
    id: 'database-id',
    ownerPassword: 'owner-password',
    authenticatorPassword: 'authenticator-password',
    authAdminPassword: 'auth-admin-password',
    /**
     * While passwords are rotated: those that Postgres is about to take. Who is refused with the ones above tries
     * these.
     */
    nextOwnerPassword: 'next-owner-password',
    nextAuthenticatorPassword: 'next-authenticator-password',
    nextAuthAdminPassword: 'next-auth-admin-password',
    passwordsRotation: 'rotation-database-passwords',
    /** The number that those that Postgres is about to take were made for. */
    nextPasswordsRotation: 'next-rotation-database-passwords',
    /** For people: a `postgresql://` URL of the owner, at the address they reach. */
    url: 'url',
  },
  /** Made by the owner, if at all: settings of the project's auth, GOTRUE_* keys as docs/auth.md lists them. */
  auth: { name: 'auth-config' },
  /** Made by the API: spec.env points at it. One key per variable. */
  env: { name: 'project-env' },
  /** Made by the API: spec.source.tokenSecretRef points at it. The value is encrypted by the API's own keys. */
  git: { name: 'project-git', token: 'token' },
  /** Made by the API (or by hand): spec.jwtSecretRef points at it. */
  jwt: { name: 'project-jwt', secret: 'secret' },
  /** Made by the API: spec.notifications.slackWebhookSecretRef points at it. */
  notifications: { name: 'project-notifications', slackWebhook: 'slack-webhook' },
} as const;

/** The reason of a condition whose step threw an error that no code expects. */
export const REASON_UNEXPECTED_ERROR = 'UnexpectedError';

/** Returns the database id of the project `ref`, whose Secret SECRETS.database holds `values`. */
export const databaseIdOf = (ref: string, values: Readonly<Record<string, string | undefined>>) =>
  values[SECRETS.database.id] || ref;
