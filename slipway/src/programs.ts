/**
 * The environment of each program: its own secrets and addresses. Nothing else of this process's environment is passed
 * to it.
 */

import { isIPv4 } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ALLOWED_HOSTS_SETTING, DATA_PLANE_NODE_FLAGS, isHostName } from '@slipway/installation';
import { SUPERUSER } from '@slipway/postgres';
import { isLoopback, LOOKUP_THREADS, OWN_PORTS_SETTING } from '@slipway/program';
import { PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import { CA_FILE_SETTING } from './authorities.js';
import type { ServerCertificate } from './certificate.js';
import type { Home } from './home.js';
import type { KubernetesUser, Secrets } from './secrets.js';
import { inUrl, reachableAt, type Settings } from './settings.js';

const PROGRAM_NAMES = ['apiserver', 'api', 'operator', 'dataplane'] as const;
export type ProgramName = (typeof PROGRAM_NAMES)[number];

export type Address = { path: string } | { host: string; port: number };

export interface ProgramPlan {
  main: string;
  nodeFlags: readonly string[];
  environment: Record<string, string>;
  /** The address where the program accepts connections once it is ready. */
  address: Address;
}

/**
 * Options of Node for programs other than the data plane. With a small young generation, idle programs release memory
 * sooner.
 */
const SMALL = ['--max-old-space-size=512', '--max-semi-space-size=4'];
const FLAGS: Record<ProgramName, readonly string[]> = {
  apiserver: SMALL,
  api: SMALL,
  operator: SMALL,
  dataplane: DATA_PLANE_NODE_FLAGS,
};

export interface Platform {
  settings: Settings;
  home: Home;
  secrets: Secrets;
  certificate: ServerCertificate;
}

export const kubernetesUrl = ({ kubernetesHost, ports }: Settings) =>
  `https://${inUrl(reachableAt(kubernetesHost))}:${ports.kubernetes}`;

export const programKubeconfig = (home: Home, user: KubernetesUser) => path.join(home.programs, `${user}.kubeconfig`);

export function planOf(name: ProgramName, platform: Platform): ProgramPlan {
  return {
    main: fileURLToPath(new URL('./main.js', import.meta.resolve(`@slipway/${name}`))),
    nodeFlags: FLAGS[name],
    ...ENVIRONMENTS[name](platform),
    environment: { ...common(platform), ...ENVIRONMENTS[name](platform).environment },
  };
}

function common({ settings, home }: Platform): Record<string, string> {
  return {
    ...settings.passedOn,
    NODE_ENV: 'production',
    ...LOOKUP_THREADS,
    NODE_COMPILE_CACHE: home.cache,
    // The folder that also contains the folder of sockets, because the sockets of functions need a short path too.
    TMPDIR: path.dirname(home.sockets.folder),
    SLIPWAY_LOG_LEVEL: settings.logLevel,
    [OWN_PORTS_SETTING]: ownPorts(settings).join(','),
    ...(settings.authorities && { [CA_FILE_SETTING]: settings.authorities, NODE_EXTRA_CA_CERTS: settings.authorities }),
  };
}

/** Returns the ports of the platform, which no tenant may reach through it. */
const ownPorts = ({ ports, tls }: Settings): number[] => [
  ...Object.values(ports),
  ...[tls?.https, tls?.http].flatMap((place) => (place === undefined ? [] : [Number(/\d+$/.exec(place)?.[0])])),
];

const ENVIRONMENTS: Record<ProgramName, (platform: Platform) => Pick<ProgramPlan, 'environment' | 'address'>> = {
  apiserver: ({ settings, home, secrets, certificate }) => ({
    address: { host: reachableAt(settings.kubernetesHost), port: settings.ports.kubernetes },
    environment: {
      SLIPWAY_LISTEN: `${inUrl(settings.kubernetesHost)}:${settings.ports.kubernetes}`,
      SLIPWAY_DATABASE_URL: platformDatabaseUrl(
        home,
        settings,
        PLATFORM_ROLES.apiserver.role,
        secrets.apiserverPassword,
      ),
      SLIPWAY_ENCRYPTION_KEYS: secrets.files.apiserverKeys,
      SLIPWAY_TOKENS: secrets.files.tokens,
      SLIPWAY_TLS_CERT: certificate.certificateFile,
      SLIPWAY_TLS_KEY: certificate.keyFile,
    },
  }),
  api: ({ settings, home, secrets }) => ({
    address: { path: home.sockets.api },
    environment: {
      KUBECONFIG: programKubeconfig(home, 'api'),
      SLIPWAY_PUBLIC_URL: settings.publicUrl,
      SLIPWAY_LISTEN: home.sockets.api,
      SLIPWAY_DATABASE_URL: apiDatabaseUrl({ settings, home, secrets }),
      SLIPWAY_ENCRYPTION_KEYS: secrets.files.apiKeys,
      SLIPWAY_JWT_SECRET: secrets.files.jwtSecret,
      SLIPWAY_SETUP_CODE: secrets.files.setupCode,
      SLIPWAY_REGISTRATION: settings.registration,
      SLIPWAY_LOCAL_ONLY: settings.localOnly ? '1' : '',
      SLIPWAY_DATAPLANE_URL: `http://${inUrl(reachableAt(settings.host))}:${settings.ports.people}`,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
      SLIPWAY_PROJECT_LOGS_SOCKET: home.sockets.logs,
      SLIPWAY_FORMS_SOCKET: home.sockets.forms,
      SLIPWAY_SITES_DIR: home.sites,
      SLIPWAY_BUILDS_DIR: home.builds,
    },
  }),
  operator: ({ settings, home, secrets }) => ({
    address: { path: home.sockets.operator },
    environment: {
      KUBECONFIG: programKubeconfig(home, 'operator'),
      SLIPWAY_PUBLIC_URL: settings.publicUrl,
      SLIPWAY_LISTEN: home.sockets.operator,
      SLIPWAY_ADMIN_DATABASE_URL: adminDatabaseUrl(home, settings, secrets.superuserPassword),
      SLIPWAY_DATABASE_PUBLIC_ADDRESS: `${databaseHost(settings)}:${settings.ports.postgres}`,
      SLIPWAY_DATAPLANE_URL: `http://${inUrl(reachableAt(settings.host))}:${settings.ports.people}`,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
      SLIPWAY_SITES_DIR: home.sites,
      SLIPWAY_BUILDS_DIR: home.builds,
      SLIPWAY_APPS_DIR: home.apps,
      SLIPWAY_APPS_DATABASE: appsDatabase(settings),
      SLIPWAY_MACHINES_DIR: home.machines,
      SLIPWAY_MACHINES_SOCKETS: home.sockets.machines,
      ...orders({ settings, home }),
    },
  }),
  dataplane: ({ settings, home }) => ({
    address: { host: reachableAt(settings.host), port: settings.ports.people },
    environment: {
      KUBECONFIG: programKubeconfig(home, 'dataplane'),
      SLIPWAY_PUBLIC_URL: settings.publicUrl,
      SLIPWAY_LISTEN: `${inUrl(settings.host)}:${settings.ports.people}`,
      SLIPWAY_API_SOCKET: home.sockets.api,
      [ALLOWED_HOSTS_SETTING]: allowedHosts(settings),
      SLIPWAY_HANG_RECORD: path.join(home.programs, 'dataplane-hangs.json'),
      SLIPWAY_FUNCTIONS_DIR: home.functions,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
      SLIPWAY_PROJECT_LOGS_DIR: home.projectLogs,
      SLIPWAY_PROJECT_LOGS_SOCKET: home.sockets.logs,
      SLIPWAY_FORMS_SOCKET: home.sockets.forms,
      SLIPWAY_STORAGE_DIR: settings.passedOn.SLIPWAY_STORAGE_DIR ?? home.storage,
      SLIPWAY_SITES_DIR: home.sites,
      ...encryption({ settings, home }),
    },
  }),
};

/** Returns the operator's variables for orders of certificates. */
const orders = ({ settings: { tls }, home }: Pick<Platform, 'settings' | 'home'>): Record<string, string> =>
  tls?.acme ? { SLIPWAY_CERTIFICATES_DIR: home.certificates, ...tls.acme } : {};

/** Returns the data plane's variables for HTTPS. */
const encryption = ({ settings: { tls }, home }: Pick<Platform, 'settings' | 'home'>): Record<string, string> =>
  tls
    ? {
        SLIPWAY_HTTPS_LISTEN: tls.https,
        ...(tls.http === undefined ? {} : { SLIPWAY_HTTP_LISTEN: tls.http }),
        SLIPWAY_CERTIFICATES_DIR: home.certificates,
        ...tls.files,
      }
    : {};

export const apiDatabaseUrl = ({ settings, home, secrets }: Pick<Platform, 'settings' | 'home' | 'secrets'>) =>
  platformDatabaseUrl(home, settings, PLATFORM_ROLES.api.role, secrets.apiPassword);

/** Returns the address of Postgres for apps. Empty: it has no IPv4 address. */
function appsDatabase({ postgresHost, ports }: Settings): string {
  const host = reachableAt(postgresHost);
  return isIPv4(host) ? `${host}:${ports.postgres}` : '';
}

/** Replaces `localhost`, which may resolve to an address family without a listener. */
function databaseHost({ publicUrl, postgresHost }: Settings): string {
  const { hostname } = new URL(publicUrl);
  return isLoopback(postgresHost) || hostname === 'localhost' ? inUrl(reachableAt(postgresHost)) : hostname;
}

/** Includes this machine's own name, by which other machines of its network may call it. */
const allowedHosts = ({ passedOn }: Settings): string => allowedHostsOf(passedOn[ALLOWED_HOSTS_SETTING], hostname());

/**
 * Leaves out the machine's name if it is not a valid host name, because the programs reject a setting with such a name.
 */
export const allowedHostsOf = (set: string | undefined, machine: string): string =>
  [set, ...(isHostName(machine.toLowerCase()) ? [machine] : [])].filter(Boolean).join(',');

const platformDatabaseUrl = (home: Home, { ports }: Settings, user: string, password: string) =>
  databaseUrl(home.sockets.platformPostgres, ports.postgres, { user, password, database: PLATFORM_DATABASE });

const adminDatabaseUrl = (home: Home, { ports }: Settings, password: string) =>
  databaseUrl(home.sockets.postgres, ports.postgres, { user: SUPERUSER, password, database: 'postgres' });

function databaseUrl(socket: string, port: number, login: { user: string; password: string; database: string }) {
  const { user, password, database } = login;
  const query = `host=${encodeURIComponent(socket)}&port=${port}`;
  return `postgresql://${user}:${encodeURIComponent(password)}@/${database}?${query}`;
}
