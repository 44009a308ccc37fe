/** What the API must be told to run: read once from the environment by `main.ts`, or given by a test. */
import { readFileSync } from 'node:fs';
import {
  type Installation,
  POD_URLS_SETTINGS,
  PROGRAMS,
  readInstallation,
  readPodUrls,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';

export interface ApiSettings extends Installation {
  /** `host:port`, or the path of a Unix socket. */
  listen: string;
  /** The platform database. */
  databaseUrl: string;
  /** A kubeconfig file; without one, the service account of the pod. */
  kubeconfig?: string;
  /** Signs user tokens. */
  jwtSecret: string;
  encryptionKeys: { current: string; keys: Record<string, string> };
  /** Where the services of projects answer, from here. */
  dataplaneUrl: string;
  /** The Unix socket at which the data plane tells what functions wrote; undefined: this installation runs none. */
  functionsSocket?: string | undefined;
  /** On a cluster, the URLs of the pods that run functions, and what is shown to them, as it is then. */
  functionsPods?: { urls: readonly string[]; token(): string } | undefined;
  /** `host:port` at which Prometheus reads metrics; undefined: none are kept. */
  metricsListen?: string | undefined;
  logLevel: string;
}

export function settingsFromEnvironment(environment: NodeJS.ProcessEnv): ApiSettings {
  const listen = needed(environment, 'SLIPWAY_LISTEN');
  const installation = readInstallation(environment);
  const settings: ApiSettings = {
    ...installation,
    listen,
    databaseUrl: needed(environment, 'SLIPWAY_DATABASE_URL'),
    jwtSecret: jwtSecret(fileOf(environment, 'SLIPWAY_JWT_SECRET')),
    encryptionKeys: encryptionKeys(fileOf(environment, 'SLIPWAY_ENCRYPTION_KEYS')),
    dataplaneUrl: (environment.SLIPWAY_DATAPLANE_URL || dataplaneOf(installation)).replace(/\/+$/, ''),
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
    functionsPods: functionsPods(environment),
    metricsListen: metricsListen(environment.SLIPWAY_METRICS_LISTEN),
    logLevel: logLevel(environment.SLIPWAY_LOG_LEVEL ?? 'info'),
  };
  return environment.KUBECONFIG ? { ...settings, kubeconfig: environment.KUBECONFIG } : settings;
}

/** On a cluster its Service; on one machine what people type. */
const dataplaneOf = ({ site, publicUrl }: Installation) =>
  site ? `http://${PROGRAMS.dataplane}.${SYSTEM_NAMESPACE}.svc` : publicUrl;

function functionsPods(environment: NodeJS.ProcessEnv): ApiSettings['functionsPods'] {
  const { functions } = POD_URLS_SETTINGS;
  const urls = readPodUrls(functions, environment[functions]);
  if (urls.length === 0) return undefined;
  // Read again each time: the Secret that is mounted there may be replaced.
  const token = () => fileOf(environment, 'SLIPWAY_FUNCTIONS_TOKEN');
  token();
  return { urls, token };
}

function metricsListen(value: string | undefined): string | undefined {
  if (!value) return undefined;
  if (!/^[^/]+:\d{1,5}$/.test(value)) throw new Error('SLIPWAY_METRICS_LISTEN must be like 0.0.0.0:9090');
  return value;
}

function needed(environment: NodeJS.ProcessEnv, variable: string): string {
  const value = environment[variable];
  if (!value) throw new Error(`${variable} is not set`);
  return value;
}

function fileOf(environment: NodeJS.ProcessEnv, variable: string): string {
  const path = needed(environment, variable);
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new Error(`${variable}: ${path} can not be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function jwtSecret(value: string): string {
  if (Buffer.byteLength(value) < 32) throw new Error('SLIPWAY_JWT_SECRET: the file must hold at least 32 bytes');
  return value;
}

function logLevel(value: string): string {
  const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];
  if (!levels.includes(value)) throw new Error(`SLIPWAY_LOG_LEVEL must be one of ${levels.join(', ')}`);
  return value;
}

function encryptionKeys(text: string): ApiSettings['encryptionKeys'] {
  const wrong = (why: string) => new Error(`SLIPWAY_ENCRYPTION_KEYS: ${why}`);
  let parsed: { current?: unknown; keys?: unknown };
  try {
    parsed = JSON.parse(text);
  } catch {
    throw wrong('the file is not JSON');
  }
  const { current, keys } = parsed;
  if (typeof current !== 'string' || typeof keys !== 'object' || keys === null || !(current in keys)) {
    throw wrong(
      'the file must be {"current": "<id>", "keys": {"<id>": "<32 bytes, base64>"}}, with the current id among the keys',
    );
  }
  for (const [id, key] of Object.entries(keys)) {
    if (typeof key !== 'string' || Buffer.from(key, 'base64').length !== 32)
      throw wrong(`key ${id} is not 32 bytes of base64`);
  }
  return { current, keys: keys as Record<string, string> };
}
