/** The operator's settings from the environment: read once, checked, with the wrong variable named. */
import { type OpenedServices, POD_URLS_SETTINGS, readInstallation, readPodUrls, type Site } from '@slipway/crds';

export interface SharedSettings {
  /** Path of a kubeconfig; undefined: the cluster's service account. */
  kubeconfig: string | undefined;
  /** For metrics and health: `host:port`, or the path of a Unix socket. */
  listen: string;
  /** Where the data plane that projects share answers. */
  dataplaneUrl: string;
  logLevel: string;
  /** Names this operator in the Lease; another than `processIdentity()` only where several run in one process. */
  identity?: string;
}

/** On a cluster all else is what the site chose. */
export interface ClusterSettings extends SharedSettings {
  site: Site;
  /** URLs of the pods that run functions; none: this installation runs no functions. */
  functionsUrls?: readonly string[];
}

export interface MachineSettings extends SharedSettings {
  /** The URL that people type: `http://localhost:4000`. */
  publicUrl: string;
  /** Undefined: projects are at paths of the public URL. */
  projectsDomain?: string | undefined;
  adminDatabaseUrl: string;
  databasePublicAddress: string;
  /** Services that the settings open beyond the availability matrix. */
  openedServices?: OpenedServices;
  /** The Unix socket at which the data plane takes functions; undefined: this installation runs none. */
  functionsSocket?: string | undefined;
}

export type OperatorSettings = ClusterSettings | MachineSettings;

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
  const { site, publicUrl, projectsDomain, openedServices } = readInstallation(environment);
  const shared = {
    kubeconfig: environment.KUBECONFIG || undefined,
    listen: text('SLIPWAY_LISTEN', /^(\/.+|[^/]*:\d+)$/, '127.0.0.1:4010 or the path of a Unix socket'),
    dataplaneUrl: text('SLIPWAY_DATAPLANE_URL', /^https?:\/\/[^/]+\/?$/, 'http://127.0.0.1:4000'),
    logLevel,
  };
  const { functions } = POD_URLS_SETTINGS;
  if (site) return { ...shared, site, functionsUrls: readPodUrls(functions, environment[functions]) };
  return {
    ...shared,
    publicUrl,
    projectsDomain,
    adminDatabaseUrl: text(
      'SLIPWAY_ADMIN_DATABASE_URL',
      /^postgres(ql)?:\/\/[^@]+@/,
      'postgresql://user:password@/postgres?host=/run/postgres&port=4002',
    ),
    databasePublicAddress: text('SLIPWAY_DATABASE_PUBLIC_ADDRESS', /^.+:\d+$/, '127.0.0.1:4002'),
    openedServices,
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
  };
}
