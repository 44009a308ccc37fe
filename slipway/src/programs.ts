/** What each program is given: its own secrets and addresses, and nothing else of this process's environment. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { SUPERUSER } from '@slipway/postgres';
import { PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import type { ServerCertificate } from './certificate.js';
import type { Home } from './home.js';
import type { KubernetesUser, Secrets } from './secrets.js';
import { inUrl, reachableAt, type Settings } from './settings.js';

const PROGRAM_NAMES = ['apiserver', 'api', 'operator', 'dataplane'] as const;
export type ProgramName = (typeof PROGRAM_NAMES)[number];

export type Address = { path: string } | { host: string; port: number };

export interface ProgramPlan {
  main: string;
  nodeFlags: string[];
  environment: Record<string, string>;
  /** Where it takes connections once it serves. */
  address: Address;
}

/** Idle programs give memory back sooner with a small young generation; the data plane's is left to Node, for its throughput. */
const SMALL = ['--max-old-space-size=512', '--max-semi-space-size=4'];
const FLAGS: Record<ProgramName, string[]> = {
  apiserver: SMALL,
  api: SMALL,
  operator: SMALL,
  dataplane: ['--max-old-space-size=1024'],
};

export interface Platform {
  settings: Settings;
  home: Home;
  secrets: Secrets;
  certificate: ServerCertificate;
}

export const kubernetesUrl = ({ host, ports }: Settings) => `https://${inUrl(reachableAt(host))}:${ports.kubernetes}`;

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
    NODE_COMPILE_CACHE: home.cache,
    SLIPWAY_LOG_LEVEL: settings.logLevel,
  };
}

const ENVIRONMENTS: Record<ProgramName, (platform: Platform) => Pick<ProgramPlan, 'environment' | 'address'>> = {
  apiserver: ({ settings, home, secrets, certificate }) => ({
    address: { host: reachableAt(settings.host), port: settings.ports.kubernetes },
    environment: {
      SLIPWAY_LISTEN: `${inUrl(settings.host)}:${settings.ports.kubernetes}`,
      SLIPWAY_DATABASE_URL: databaseUrl(home, settings, PLATFORM_ROLES.apiserver.role, secrets.apiserverPassword),
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
      SLIPWAY_DATABASE_URL: databaseUrl(home, settings, PLATFORM_ROLES.api.role, secrets.apiPassword),
      SLIPWAY_ENCRYPTION_KEYS: secrets.files.apiKeys,
      SLIPWAY_JWT_SECRET: secrets.files.jwtSecret,
      SLIPWAY_DATAPLANE_URL: `http://${inUrl(reachableAt(settings.host))}:${settings.ports.people}`,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
    },
  }),
  operator: ({ settings, home, secrets }) => ({
    address: { path: home.sockets.operator },
    environment: {
      KUBECONFIG: programKubeconfig(home, 'operator'),
      SLIPWAY_PUBLIC_URL: settings.publicUrl,
      SLIPWAY_LISTEN: home.sockets.operator,
      SLIPWAY_ADMIN_DATABASE_URL: databaseUrl(home, settings, SUPERUSER, secrets.superuserPassword, 'postgres'),
      SLIPWAY_DATABASE_PUBLIC_ADDRESS: `${databaseHost(settings)}:${settings.ports.postgres}`,
      SLIPWAY_DATAPLANE_URL: `http://${inUrl(reachableAt(settings.host))}:${settings.ports.people}`,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
    },
  }),
  dataplane: ({ settings, home }) => ({
    address: { host: reachableAt(settings.host), port: settings.ports.people },
    environment: {
      KUBECONFIG: programKubeconfig(home, 'dataplane'),
      SLIPWAY_PUBLIC_URL: settings.publicUrl,
      SLIPWAY_LISTEN: `${inUrl(settings.host)}:${settings.ports.people}`,
      SLIPWAY_API_SOCKET: home.sockets.api,
      SLIPWAY_FUNCTIONS_DIR: home.functions,
      SLIPWAY_FUNCTIONS_SOCKET: home.sockets.functions,
      SLIPWAY_STORAGE_DIR: settings.passedOn.SLIPWAY_STORAGE_DIR ?? home.storage,
    },
  }),
};

/** `localhost` may resolve to an address family that nothing listens on. */
function databaseHost({ publicUrl }: Settings): string {
  const { hostname } = new URL(publicUrl);
  return hostname === 'localhost' ? '127.0.0.1' : hostname;
}

function databaseUrl(
  home: Home,
  { ports }: Settings,
  user: string,
  password: string,
  database: string = PLATFORM_DATABASE,
) {
  const host = encodeURIComponent(home.sockets.postgres);
  return `postgresql://${user}:${encodeURIComponent(password)}@/${database}?host=${host}&port=${ports.postgres}`;
}
