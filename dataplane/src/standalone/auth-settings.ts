/**
 * Settings of our auth from GoTrue's environment (docs/cluster-services.md has the variables and their sources). In:
 * the environment. Out: the address to listen at, the project, and variables that this service ignores.
 */
import type { Level } from 'pino';
import type { BackendTenant } from '../projects/tenant.js';
import { loginOf } from './database-url.js';
import { Environment } from './environment.js';
import { fromKeys, keysOf } from './jwt-secrets.js';
import { type Ignored, onlyTenant } from './project.js';

export interface AuthSettings {
  listen: string;
  tenant: BackendTenant;
  logLevel: Level;
  /** Settings that count as absent. */
  ignored: Ignored[];
}

/** Port to listen at by default, as upstream. */
const PORT = 8081;
const DATABASE_URL = ['GOTRUE_DB_DATABASE_URL', 'DATABASE_URL'];
const URL_EXAMPLE = 'https://project.example.com/auth/v1';
const LEVELS: Readonly<Record<string, Level>> = {
  panic: 'fatal',
  fatal: 'fatal',
  error: 'error',
  warn: 'warn',
  warning: 'warn',
  info: 'info',
  debug: 'debug',
  trace: 'trace',
};

export function readAuthSettings(values: Readonly<Record<string, string | undefined>>): AuthSettings {
  const environment = new Environment(values);
  const external = environment.required(URL_EXAMPLE, 'API_EXTERNAL_URL', 'GOTRUE_API_EXTERNAL_URL');
  const serviceUrl = environment.url(URL_EXAMPLE, external, 'API_EXTERNAL_URL');
  const databaseUrl = environment.required('postgres://user:password@host:5432/database', ...DATABASE_URL);
  const secret = environment.required('a random text of 32 characters or more', 'GOTRUE_JWT_SECRET');
  const keys = environment.optional('GOTRUE_JWT_KEYS');
  const secrets = fromKeys(keys === undefined ? [] : keysOf(keys, 'GOTRUE_JWT_KEYS'), 'GOTRUE_JWT_KEYS', secret);
  const host = environment.optional('GOTRUE_API_HOST') ?? '0.0.0.0';
  const port = environment.port(PORT, 'GOTRUE_API_PORT', 'PORT');
  const logLevel = LEVELS[environment.optional('GOTRUE_LOG_LEVEL', 'LOG_LEVEL')?.toLowerCase() ?? ''] ?? 'info';
  const ignored = otherwise(environment, serviceUrl);
  return {
    listen: `${host.includes(':') ? `[${host}]` : host}:${port}`,
    tenant: onlyTenant({
      service: 'auth',
      serviceUrl,
      login: loginOf(databaseUrl, DATABASE_URL.join(' or ')),
      secrets,
      authConfig: environment.others('GOTRUE_'),
    }),
    logLevel,
    ignored,
  };
}

/** Options of upstream that are fixed here: the value of each, and the reaction to other values. */
function otherwise(environment: Environment, serviceUrl: string): Ignored[] {
  const verify = new URL(`${serviceUrl}/verify`).pathname;
  const fixed: Record<string, (value: string) => boolean> = {
    GOTRUE_DB_DRIVER: (value) => value === 'postgres',
    GOTRUE_DB_NAMESPACE: (value) => value === 'auth',
    GOTRUE_JWT_ISSUER: (value) => value.replace(/\/+$/, '') === serviceUrl,
    GOTRUE_JWT_AUD: (value) => value === 'authenticated',
    GOTRUE_JWT_DEFAULT_GROUP_NAME: (value) => value === 'authenticated',
    GOTRUE_JWT_ADMIN_ROLES: (value) => value.split(',').includes('service_role'),
    GOTRUE_JWT_ADMIN_GROUP_NAME: (value) => value === 'service_role',
    // Auth has a few connections, which requests share, and closes idle ones.
    GOTRUE_DB_MAX_POOL_SIZE: () => true,
    GOTRUE_DB_MAX_IDLE_POOL_SIZE: () => true,
    GOTRUE_DB_CONN_MAX_LIFETIME: () => true,
    GOTRUE_DB_CONN_MAX_IDLE_TIME: () => true,
    GOTRUE_DB_HEALTH_CHECK_PERIOD: () => true,
    GOTRUE_DB_MIGRATIONS_PATH: () => true,
    GOTRUE_API_ENDPOINT: () => true,
    GOTRUE_API_MAX_REQUEST_DURATION: () => true,
    ...Object.fromEntries(
      ['INVITE', 'CONFIRMATION', 'RECOVERY', 'EMAIL_CHANGE'].map((mail) => [
        `GOTRUE_MAILER_URLPATHS_${mail}`,
        (value: string) => new URL(value, serviceUrl).pathname === verify,
      ]),
    ),
  };
  return Object.entries(fixed).flatMap(([name, agrees]) => {
    const value = environment.optional(name);
    if (value === undefined || agrees(value)) return [];
    return [{ name, reason: 'this service does not support it; docs/cluster-services.md lists fixed settings' }];
  });
}
