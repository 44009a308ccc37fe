/**
 * Settings of our REST from PostgREST's environment (docs/cluster-services.md has the variables and their sources). In:
 * the environment. Out: the address to listen at, the project, its settings, and variables that this service ignores.
 */
import { randomBytes } from 'node:crypto';
import { API_ROLES, type ApiRole, REST_SETTINGS, type RestSetting } from '@slipway/installation';
import { JWT_KEYS, parseSigningKeys } from '@slipway/installation/auth-settings.js';
import type { Level } from 'pino';
import type { BackendTenant, Caller } from '../projects/tenant.js';
import type { RestOptions } from '../services/rest/index.js';
import { loginOf } from './database-url.js';
import { Environment } from './environment.js';
import { fromSecret } from './jwt-secrets.js';
import { type Ignored, onlyTenant } from './project.js';

export interface ServiceSettings {
  listen: string;
  /** Address for probes; undefined: none. */
  adminListen: string | undefined;
  tenant: BackendTenant;
  options: RestOptions;
  /** Identity of callers without a token; undefined: they are rejected. */
  anonymous: Caller | undefined;
  logLevel: Level;
  /** Settings that count as absent, with the reason. */
  ignored: Ignored[];
}

const PORT = 3000;
const POOL = 10;
const LEVELS: Readonly<Record<string, Level>> = {
  crit: 'fatal',
  error: 'error',
  warn: 'warn',
  info: 'info',
  debug: 'debug',
};
/** Wildcard hosts, in Warp's notation. */
const HOSTS: Readonly<Record<string, string>> = {
  '!4': '0.0.0.0',
  '*4': '0.0.0.0',
  '!6': '::',
  '*6': '::',
  '*': '0.0.0.0',
};
/** Variable with the path of the role in a token's claims. It can't be changed: the role is in the claim `role`. */
const ROLE_CLAIM = 'PGRST_JWT_ROLE_CLAIM_KEY';

export function readServiceSettings(values: Readonly<Record<string, string | undefined>>): ServiceSettings {
  const environment = new Environment(values);
  const host = hostOf(environment.optional('PGRST_SERVER_HOST'));
  const port = environment.port(PORT, 'PGRST_SERVER_PORT');
  const adminHost = hostOf(
    environment.optional('PGRST_ADMIN_SERVER_HOST') ?? environment.optional('PGRST_SERVER_HOST'),
  );
  const hasAdmin = environment.optional('PGRST_ADMIN_SERVER_PORT') !== undefined;
  const adminPort = environment.port(0, 'PGRST_ADMIN_SERVER_PORT');
  if (hasAdmin && adminPort !== 0 && adminPort === port) {
    throw new Error('PGRST_ADMIN_SERVER_PORT must be another port than PGRST_SERVER_PORT');
  }
  const anonymous = anonymousCaller(environment.optional('PGRST_DB_ANON_ROLE'));
  const roleClaim = environment.optional(ROLE_CLAIM);
  if (roleClaim !== undefined && roleClaim.replaceAll('"', '') !== '.role')
    throw new Error(`${ROLE_CLAIM} can only be .role here`);
  const logLevel = LEVELS[environment.optional('PGRST_LOG_LEVEL') ?? 'error'];
  if (logLevel === undefined) throw new Error(`PGRST_LOG_LEVEL must be one of ${Object.keys(LEVELS).join(', ')}`);
  const options = optionsOf(environment);
  const tenant = tenantOf(environment, `http://${host}:${port}`);
  const others = Object.keys(environment.others('PGRST_')).map((name) => ({
    name,
    reason: 'this service does not support it',
  }));
  return {
    listen: `${host}:${port}`,
    adminListen: hasAdmin ? `${adminHost}:${adminPort}` : undefined,
    tenant,
    options,
    anonymous,
    logLevel,
    ignored: [...wrongKeys(tenant), ...others],
  };
}

/** An invalid key of the owner affects nothing else of the project. */
function wrongKeys({ authConfig }: BackendTenant): Ignored[] {
  const keys = authConfig?.[JWT_KEYS];
  try {
    if (keys !== undefined) parseSigningKeys(keys);
    return [];
  } catch (error) {
    return [{ name: 'PGRST_JWT_SECRET', reason: `of its asymmetric keys ${(error as Error).message}` }];
  }
}

function hostOf(configured = '!4'): string {
  const host = HOSTS[configured] ?? configured;
  return host.includes(':') ? `[${host}]` : host;
}

function anonymousCaller(role: string | undefined): Caller | undefined {
  if (role === undefined) return undefined;
  if (!(API_ROLES as readonly string[]).includes(role)) {
    throw new Error(`PGRST_DB_ANON_ROLE must be one of ${API_ROLES.join(', ')}`);
  }
  return { role: role as ApiRole, claims: JSON.stringify({ role }) };
}

function tenantOf(environment: Environment, own: string): BackendTenant {
  const databaseUrl = environment.optionalOrFile('PGRST_DB_URI');
  if (databaseUrl === undefined) {
    throw new Error('PGRST_DB_URI is not set. Set a URL such as postgres://user:password@host:5432/database');
  }
  const proxy = 'PGRST_OPENAPI_SERVER_PROXY_URI';
  const example = 'https://project.example.com/rest/v1';
  const secret = environment.optionalOrFile('PGRST_JWT_SECRET');
  const isBase64 = environment.boolean(false, 'PGRST_JWT_SECRET_IS_BASE64');
  return onlyTenant({
    service: 'rest',
    serviceUrl: environment.url(example, environment.optional(proxy) ?? own, proxy),
    login: loginOf(databaseUrl, 'PGRST_DB_URI'),
    secrets:
      secret === undefined
        ? { current: unknowable(), others: [], asymmetric: undefined }
        : fromSecret(secret, 'PGRST_JWT_SECRET', isBase64),
    authConfig: {},
  });
}

/** Without a secret no token is valid, not even one signed with an empty secret. */
const unknowable = () => randomBytes(32).toString('hex');

/** Returns the options. The owner's settings in the database override them, unless PGRST_DB_CONFIG disables that. */
function optionsOf(environment: Environment): RestOptions {
  const given: Partial<Record<RestSetting, string>> = {};
  for (const name of REST_SETTINGS) {
    const value = environment.optional(`PGRST_${name.toUpperCase()}`);
    if (value !== undefined) given[name] = value;
  }
  const schema = environment.optional('PGRST_DB_SCHEMA');
  if (schema !== undefined) given.db_schemas ??= schema;
  const pool = environment.optional('PGRST_DB_POOL') ?? String(POOL);
  if (!/^[1-9]\d{0,3}$/.test(pool)) throw new Error('PGRST_DB_POOL must be a whole number from 1 to 9999');
  return {
    given,
    fromDatabase: environment.boolean(true, 'PGRST_DB_CONFIG'),
    connectionsPerProject: Number(pool),
    connections: Number(pool),
  };
}
