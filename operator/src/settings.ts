/** The operator's settings from the environment: read once, checked, with the wrong variable named. */
import { openedServices, SHARED_SERVICES_SETTING } from '@slipway/crds';
import type { OperatorSettings } from './index.js';

type Environment = Record<string, string | undefined>;

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export function readSettings(environment: Environment): OperatorSettings {
  const text = (name: string, pattern: RegExp, example: string) => {
    const value = environment[name];
    if (value === undefined || value === '') throw new Error(`${name} is not set: it is like ${example}`);
    // The value may hold a password: it is not repeated.
    if (!pattern.test(value)) throw new Error(`${name} is not as it should be: it is like ${example}`);
    return value;
  };
  const logLevel = environment.SLIPWAY_LOG_LEVEL || 'info';
  if (!LOG_LEVELS.includes(logLevel)) throw new Error(`SLIPWAY_LOG_LEVEL is one of ${LOG_LEVELS.join(', ')}`);
  return {
    kubeconfig: environment.KUBECONFIG || undefined,
    publicUrl: text('SLIPWAY_PUBLIC_URL', /^https?:\/\/[^/]+\/?$/, 'http://localhost:4000'),
    listen: text('SLIPWAY_LISTEN', /^(\/.+|[^/]*:\d+)$/, '127.0.0.1:4010 or the path of a Unix socket'),
    adminDatabaseUrl: text(
      'SLIPWAY_ADMIN_DATABASE_URL',
      /^postgres(ql)?:\/\/[^@]+@/,
      'postgresql://user:password@/postgres?host=/run/postgres&port=4002',
    ),
    databasePublicAddress: text('SLIPWAY_DATABASE_PUBLIC_ADDRESS', /^.+:\d+$/, '127.0.0.1:4002'),
    dataplaneUrl: text('SLIPWAY_DATAPLANE_URL', /^https?:\/\/[^/]+\/?$/, 'http://127.0.0.1:4000'),
    openedServices: openedServices(environment[SHARED_SERVICES_SETTING]),
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
    logLevel,
  };
}
