/**
 * Every name that several programs must agree on, except those of the resources themselves. A project's ref is the
 * suffix of all its objects.
 */
/**
 * Header of responses of the management API to a caller with a valid token. Only the gateway in front of it reads this
 * header.
 */
export const VERIFIED_HEADER = 'x-slipway-verified';
/** Namespace of the platform's own objects, such as leases. Events of cluster-scoped objects are in `default`. */
export const SYSTEM_NAMESPACE = 'slipway-system';
/**
 * The programs on a cluster: the names of their Deployments (realtime, storage, functions, hosting and postgres:
 * StatefulSets) and Services in SYSTEM_NAMESPACE.
 */
export const PROGRAMS = {
  operator: 'slipway-operator',
  api: 'slipway-api',
  dataplane: 'slipway-dataplane',
  realtime: 'slipway-realtime',
  storage: 'slipway-storage',
  functions: 'slipway-functions',
  hosting: 'slipway-hosting',
  egress: 'slipway-build-egress',
  postgres: 'slipway-postgres',
} as const;
/**
 * Secrets in SYSTEM_NAMESPACE, which the operator creates if they are missing. A site may set `url` to the URL of its
 * own Postgres.
 */
export const POSTGRES_SECRET = { name: PROGRAMS.postgres, password: 'password', url: 'url' } as const;
export const API_SECRET = {
  name: PROGRAMS.api,
  databaseUrl: 'database-url',
  jwtSecret: 'jwt-secret',
  encryptionKeys: 'encryption-keys.json',
} as const;
/** Secret with the one-time code with which the first administrator registers. The operator creates it. */
export const SETUP_SECRET = { name: 'slipway-setup', code: 'code' } as const;
/**
 * Secret with the bearer token of the functions control port. Only the operator, which creates it, and the API have the
 * token.
 */
export const FUNCTIONS_SECRET = { name: PROGRAMS.functions, token: 'token' } as const;
/** Secret with the bearer token of the gateways' logs of projects. Only the gateways and the API have the token. */
export const LOGS_SECRET = { name: 'slipway-logs', token: 'token' } as const;
/** Port at which each gateway returns logs of projects, and the headless Service with the addresses of all gateways. */
export const LOGS_PORT = 8081;
export const LOGS_SERVICE = `${PROGRAMS.dataplane}-logs`;
/** Secret with the label of this installation at the provider of machines. */
export const MACHINES_SECRET = { name: 'slipway-machines', label: 'label' } as const;
/** Port at which a functions pod receives the functions to serve. The URLs of those pods have the port for calls. */
export const FUNCTIONS_CONTROL_PORT = 8081;
/**
 * Secret with the token of the store of deployments and logs, and of the API's port for entries of forms. Only the
 * operator, which creates it, the API and the pods of sites have the token.
 */
export const HOSTING_SECRET = { name: PROGRAMS.hosting, token: 'token' } as const;
/** Port of the store of deployments and logs. The URLs of its pods have the port for visitors of sites. */
export const HOSTING_STORE_PORT = 8081;
/** Port of the API at which it accepts entries of forms from the pods of sites, and the Service of that port. */
export const FORMS_PORT = 8081;
export const FORMS_SERVICE = `${PROGRAMS.api}-forms`;
/**
 * Secret of the site, if it exists, with certificate authorities (PEM) that builds trust in addition to those of the
 * system.
 */
export const BUILD_CERTIFICATES_SECRET = { name: 'slipway-build-certificates', certificates: 'ca.crt' } as const;
/** Port of the egress proxy, the only route of builds to other hosts. */
export const BUILD_EGRESS_PORT = 3128;
/** Namespace of builds' pods. Its pod security standard admits Kaniko. */
export const BUILDS_NAMESPACE = 'slipway-builds';
/** Label of the objects of a build on a cluster, with the ref of its project. */
export const LABEL_BUILD_OF = 'slipway.dev/build-of';
/** Annotation of a build's Job, with the name of the Build, which may be longer than a label. */
export const ANNOTATION_BUILD = 'slipway.dev/build';
/** Annotation of a build's Job: the site that its output belongs to. Absent: the project's own, of an older release. */
export const ANNOTATION_SITE = 'slipway.dev/site';
/** Variables with the URLs of a service's pods. */
export const POD_URLS_SETTINGS = {
  realtime: 'SLIPWAY_REALTIME_URLS',
  storage: 'SLIPWAY_STORAGE_URLS',
  functions: 'SLIPWAY_FUNCTIONS_URLS',
  hosting: 'SLIPWAY_HOSTING_URLS',
} as const;
/** Name of the Lease of the leading operator. The API's health check reads it. */
export const OPERATOR_LEASE = 'slipway-operator';
/** Namespace of the shared Postgres clusters, one for each region that has projects. */
export const DATA_NAMESPACE = 'slipway-data';
export const sharedClusterOf = (region: string) => `shared-${region}`;
/** The ConfigMap of `Site`, in SYSTEM_NAMESPACE. */
export const SITE_CONFIG = { name: 'slipway-site', key: 'site.yaml' } as const;
/** Field manager of objects that the operator applies. */
export const FIELD_MANAGER = 'slipway-operator';
/**
 * Length of a ref that the management API generates. Such a ref has only lowercase letters, as Supabase's own tools
 * require.
 */
export const RANDOM_REF_LENGTH = 20;
export const LABEL_PROJECT = 'slipway.dev/project';
export const LABEL_PART = 'slipway.dev/part';
/** Label of the pods of a Postgres cluster, with the cluster's name. */
export const LABEL_CLUSTER = 'slipway.dev/cluster';
export const LABEL_MANAGED_BY = 'app.kubernetes.io/managed-by';
export const MANAGED_BY = 'slipway';
/**
 * LABEL_PART of a project's pods on a cluster, with the Service and port of each in the project's namespace. The probes
 * of rest have a port of their own.
 */
export const PART_AUTH = 'auth';
export const PART_REST = 'rest';
export const PART_POSTGRES = 'postgres';
export const DEPLOYED_SERVICES = {
  auth: { service: PART_AUTH, port: 9999 },
  rest: { service: PART_REST, port: 3000, adminPort: 3001 },
} as const;
/**
 * LABEL_PART of the ConfigMaps with an EdgeFunction's versions. Each has one version, the name `<name>-v<version>` and
 * the key `code`.
 */
export const PART_FUNCTION_VERSION = 'function-version';
export const LABEL_FUNCTION = 'slipway.dev/function';
export const LABEL_FUNCTION_VERSION = 'slipway.dev/function-version';
export const functionVersionName = (name: string, version: number) => `${name}-v${version}`;
/**
 * Annotation of the Secret of a project's database: the address for which the Secret was created, `host:port/database
 * …`. It stays when the contents of the Secret change.
 */
export const ANNOTATION_ADDRESS = 'slipway.dev/address';
/**
 * Label of the objects of a deleted project with retained data, `true`; and the annotation with the account for which
 * the data is retained.
 */
export const LABEL_RETAINED = 'slipway.dev/retained';
export const ANNOTATION_RETAINED_FOR = 'slipway.dev/retained-for';
/** Networks for tests of devices (RFC 2544), which no network of people uses: the addresses of apps' containers. */
export const CONTAINERS_NETWORK = '198.18.0.0/15';
const NAMESPACE_PREFIX = 'p-';
export const namespaceOf = (ref: string) => `${NAMESPACE_PREFIX}${ref}`;
/** Returns undefined for a namespace that is not a project's. */
export const refOfNamespace = (namespace: string | undefined) =>
  namespace?.startsWith(NAMESPACE_PREFIX) ? namespace.slice(NAMESPACE_PREFIX.length) : undefined;
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
/** The login by which SQL of `/query` acts as the owner while the owner's own login is closed. */
export const queryRole = (databaseId: string) => `query.${databaseId}`;
/** The `application_name` of sessions for SQL of `/query`. */
export const QUERY_APPLICATION = 'slipway-query';
/** Group roles without login that every project shares; policies and grants name them as on Supabase. */
export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;
export type ApiRole = (typeof API_ROLES)[number];
/**
 * Role that reads the write-ahead log of every tenant's database, for realtime. No tenant may have this login, because
 * it can stream the whole cluster. Its password is in REPLICATION_SECRET, in SYSTEM_NAMESPACE.
 */
export const REPLICATION_ROLE = 'slipway_realtime';
export const REPLICATION_SECRET = { name: 'slipway-realtime', password: 'password' } as const;
/** Returns the name of a project's replication slot. The slot exists while a client is subscribed to changes. */
export const replicationSlotOf = (databaseId: string) => `realtime_${databaseId.replaceAll('-', '_')}`;
/**
 * Number of connections to a project's database with the authenticator role: of the data plane's services, each in one
 * pod, and of MCP's read-only SQL (two for each API replica). REST has all other connections of that role's limit,
 * wherever it runs.
 */
export const CONNECTIONS_AS_AUTHENTICATOR = { storage: 3, realtime: 3, mcp: 4 } as const;
/** Secrets in the project's namespace, each labelled LABEL_PROJECT=<ref>, and their keys. Values are plain text. */
export const SECRETS = {
  /** Created by the operator. */
  keys: {
    name: 'project-keys',
    jwtSecret: 'jwt-secret',
    /**
     * During a rotation: the secret that is about to sign, and the one that signed before. Tokens of all three are
     * valid.
     */
    nextJwtSecret: 'next-jwt-secret',
    previousJwtSecret: 'previous-jwt-secret',
    anonKey: 'anon-key',
    serviceRoleKey: 'service-role-key',
    webhookSecret: 'webhook-secret',
    /** The value of spec.rotation for which these credentials were created. */
    jwtSecretRotation: 'rotation-jwt-secret',
    /** The value of spec.rotation for the next secret. */
    nextJwtSecretRotation: 'next-rotation-jwt-secret',
    apiKeysRotation: 'rotation-api-keys',
  },
  /** Created by the operator: the credentials of each role in the project's database. */
  database: {
    name: 'project-database',
    /** Address for programs of the platform: a host name, or the directory of a Unix socket. */
    host: 'host',
    port: 'port',
    database: 'database',
    /** The database id. A project of an earlier release has no such key: its ref is the id. */
    id: 'database-id',
    ownerPassword: 'owner-password',
    authenticatorPassword: 'authenticator-password',
    authAdminPassword: 'auth-admin-password',
    /**
     * During a rotation: the passwords that Postgres is about to accept. A client whose password above is rejected
     * tries the next one.
     */
    nextOwnerPassword: 'next-owner-password',
    nextAuthenticatorPassword: 'next-authenticator-password',
    nextAuthAdminPassword: 'next-auth-admin-password',
    passwordsRotation: 'rotation-database-passwords',
    /** The value of spec.rotation for the next passwords. */
    nextPasswordsRotation: 'next-rotation-database-passwords',
    /** For users: a `postgresql://` URL of the owner, with an address that they can reach. */
    url: 'url',
  },
  /** Created by the API, or with kubectl: settings of the project's auth, GOTRUE_* keys as docs/auth.md lists them. */
  auth: { name: 'auth-config' },
  /** Created by the API: spec.env points at it. One key per variable, and one for targets (`env-targets.ts`). */
  env: { name: 'project-env' },
  /**
   * Created by the API: spec.source.tokenSecretRef and deployKeySecretRef point at it. The values are encrypted with
   * the API's own keys.
   */
  git: { name: 'project-git', token: 'token', deployKey: 'deploy-key' },
  /** Created by the API or by hand: spec.jwtSecretRef points at it. */
  jwt: { name: 'project-jwt', secret: 'secret' },
  /** Created by the API: spec.notifications.slackWebhookSecretRef points at it. */
  notifications: { name: 'project-notifications', slackWebhook: 'slack-webhook' },
} as const;
/** The reason of a condition whose step threw an unexpected error. */
export const REASON_UNEXPECTED_ERROR = 'UnexpectedError';
/** Returns the database id of the project `ref`. `values` are those of its Secret SECRETS.database. */
export const databaseIdOf = (ref: string, values: Readonly<Record<string, string | undefined>>) =>
  values[SECRETS.database.id] || ref;
