/**
 * The environment of auth and rest. Pure. docs/cluster-services.md lists it with the source of each variable. In: the
 * values of a project's Secrets, and its address. Out: the variables for a Deployment, and those for a Secret.
 */
import { authAdminRole, authenticatorRole, DEPLOYED_SERVICES, databaseIdOf, SECRETS } from '@slipway/installation';
import { authKeys, type JwtSecrets, restKeys } from './jwt-keys.js';
import { authPool, restPool } from './pools.js';

export type Values = Readonly<Record<string, string>>;

export interface ProjectSecrets {
  keys: Values;
  database: Values;
  /** The owner's settings of auth. */
  authConfig: Values;
}

export interface Environment {
  /** Variables that everyone who may read Deployments can see. */
  open: Values;
  secret: Values;
}

const { keys: keyNames, database: databaseNames } = SECRETS;
const OWN_JWT_KEYS = 'GOTRUE_JWT_KEYS';

/** `replicas`: the number of pods that share the connections of the role. */
export function authEnvironment(
  ref: string,
  url: string,
  { keys, database, authConfig }: ProjectSecrets,
  replicas: number,
): Environment {
  const own = Object.fromEntries(Object.entries(authConfig).filter(([name]) => /^GOTRUE_[A-Z0-9_]+$/.test(name)));
  const open = {
    GOTRUE_API_HOST: '0.0.0.0',
    GOTRUE_API_PORT: String(DEPLOYED_SERVICES.auth.port),
    API_EXTERNAL_URL: `${url}/auth/v1`,
    GOTRUE_DB_DRIVER: 'postgres',
    GOTRUE_JWT_ISSUER: `${url}/auth/v1`,
    GOTRUE_JWT_AUD: 'authenticated',
    GOTRUE_JWT_DEFAULT_GROUP_NAME: 'authenticated',
    GOTRUE_JWT_ADMIN_ROLES: 'service_role',
    GOTRUE_MAILER_URLPATHS_INVITE: '/auth/v1/verify',
    GOTRUE_MAILER_URLPATHS_CONFIRMATION: '/auth/v1/verify',
    GOTRUE_MAILER_URLPATHS_RECOVERY: '/auth/v1/verify',
    GOTRUE_MAILER_URLPATHS_EMAIL_CHANGE: '/auth/v1/verify',
    GOTRUE_RATE_LIMIT_HEADER: 'X-Forwarded-For',
  };
  const login = {
    role: authAdminRole(databaseIdOf(ref, database)),
    password: database[databaseNames.authAdminPassword],
  };
  const secret = {
    ...authDefaults(own, replicas),
    ...own,
    GOTRUE_DB_DATABASE_URL: `${databaseUrl(database, login)}?search_path=auth`,
    GOTRUE_JWT_SECRET: keys[keyNames.jwtSecret] ?? '',
    [OWN_JWT_KEYS]: authKeys(jwtSecrets(keys), authConfig[OWN_JWT_KEYS]),
  };
  return { open, secret: without(secret, open) };
}

const authDefaults = (own: Values, replicas: number): Values => ({
  GOTRUE_DB_MAX_POOL_SIZE: String(authPool(replicas)),
  GOTRUE_DB_CONN_MAX_IDLE_TIME: '1m',
  GOTRUE_JWT_EXP: '3600',
  GOTRUE_SITE_URL: 'http://localhost:3000',
  GOTRUE_DISABLE_SIGNUP: 'false',
  GOTRUE_EXTERNAL_EMAIL_ENABLED: 'true',
  GOTRUE_EXTERNAL_PHONE_ENABLED: 'false',
  GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED: 'false',
  GOTRUE_MAILER_AUTOCONFIRM: String(!own.GOTRUE_SMTP_HOST && own.GOTRUE_HOOK_SEND_EMAIL_ENABLED !== 'true'),
});

export function restEnvironment(
  ref: string,
  url: string,
  { keys, database, authConfig }: ProjectSecrets,
  replicas: number,
): Environment {
  const login = {
    role: authenticatorRole(databaseIdOf(ref, database)),
    password: database[databaseNames.authenticatorPassword],
  };
  return {
    open: {
      PGRST_SERVER_HOST: '0.0.0.0',
      PGRST_SERVER_PORT: String(DEPLOYED_SERVICES.rest.port),
      PGRST_ADMIN_SERVER_PORT: String(DEPLOYED_SERVICES.rest.adminPort),
      PGRST_DB_SCHEMAS: 'public',
      PGRST_DB_EXTRA_SEARCH_PATH: 'public,extensions',
      PGRST_DB_ANON_ROLE: 'anon',
      PGRST_DB_POOL: String(restPool(replicas)),
      PGRST_DB_CONFIG: 'true',
      PGRST_OPENAPI_SERVER_PROXY_URI: `${url}/rest/v1`,
    },
    secret: {
      PGRST_DB_URI: databaseUrl(database, login),
      PGRST_JWT_SECRET: restKeys(jwtSecrets(keys), authConfig[OWN_JWT_KEYS]),
    },
  };
}

const jwtSecrets = (keys: Values): JwtSecrets => ({
  current: keys[keyNames.jwtSecret] ?? '',
  next: keys[keyNames.nextJwtSecret],
  previous: keys[keyNames.previousJwtSecret],
});

function databaseUrl(database: Values, { role, password }: { role: string; password: string | undefined }): string {
  const at = `${database[databaseNames.host]}:${database[databaseNames.port]}/${database[databaseNames.database]}`;
  return `postgres://${encodeURIComponent(role)}:${encodeURIComponent(password ?? '')}@${at}`;
}

/** Drops names that the Deployment sets: these would take precedence anyway. */
const without = (values: Values, others: Values): Values =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !(name in others)));
