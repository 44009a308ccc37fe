/** The data plane's settings from the environment: read once, checked, with the wrong variable named. */
import { readFileSync } from 'node:fs';
import type { BlockList } from 'node:net';
import {
  ALLOWED_HOSTS_SETTING,
  type Installation,
  POD_URLS_SETTINGS,
  readAllowedHosts,
  readInstallation,
  readPodUrls,
  readTrustedProxies,
  TRUSTED_PROXIES_SETTING,
} from '@slipway/crds';
import type { S3Settings } from './storage/content/s3.js';

export interface DataplaneSettings {
  /** `host:port`, or the path of a Unix socket. */
  listen: string;
  /** Where people and projects are, and on a cluster the site's settings. */
  installation: Installation;
  /** Host names that a one-machine platform answers for, beside localhost, the public URL's and projects'. */
  allowedHosts?: readonly string[];
  /** Reverse proxies whose X-Forwarded-For counts; undefined: none. */
  trustedProxies?: BlockList | undefined;
  /** The Unix socket that management routes are handed on to; undefined: the API is elsewhere. */
  apiSocket: string | undefined;
  /** URLs of the pods of services that run in pods of their own. */
  pods: Readonly<Record<keyof typeof POD_URLS_SETTINGS, readonly string[]>>;
  /** Undefined: the service account of the pod. */
  kubeconfig: string | undefined;
  /**
   * Requests a second of one address to one project; 0: no limit; undefined: the default, from which loopback is
   * spared.
   */
  rateLimit: number | undefined;
  /** Undefined: this data plane runs no storage service. */
  storage: { directory: string; s3: S3Settings | undefined } | undefined;
  /** Undefined: this data plane runs no functions. */
  functions: FunctionsSettings | undefined;
  /** `host:port` at which Prometheus reads metrics; undefined: none are kept. */
  metricsListen: string | undefined;
  logLevel: string;
}

export interface FunctionsSettings {
  /** Where deployed functions are kept. */
  home: string;
  /**
   * Where the platform's programs deploy them: a Unix socket, or `host:port` for those who show the token, as it is
   * then.
   */
  control: { socket: string } | { listen: string; token(): string };
  /** Where calls of functions to the public URL are carried; undefined: they are answered here. */
  gatewayUrl: string | undefined;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export function readSettings(environment: Record<string, string | undefined>): DataplaneSettings {
  const text = (name: string, pattern: RegExp, example: string) => {
    const value = environment[name];
    if (value === undefined || value === '') throw new Error(`${name} is not set: it is like ${example}`);
    if (!pattern.test(value)) throw new Error(`${name} is ${JSON.stringify(value)}: it is like ${example}`);
    return value;
  };
  const pods = (service: keyof typeof POD_URLS_SETTINGS) =>
    readPodUrls(POD_URLS_SETTINGS[service], environment[POD_URLS_SETTINGS[service]]);
  const logLevel = environment.SLIPWAY_LOG_LEVEL || 'info';
  if (!LOG_LEVELS.includes(logLevel)) throw new Error(`SLIPWAY_LOG_LEVEL is one of ${LOG_LEVELS.join(', ')}`);
  return {
    listen: text('SLIPWAY_LISTEN', /^(\/.+|.+:\d{1,5})$/, '127.0.0.1:4000 or the path of a Unix socket'),
    installation: readInstallation(environment),
    allowedHosts: readAllowedHosts(environment[ALLOWED_HOSTS_SETTING]),
    trustedProxies: readTrustedProxies(environment[TRUSTED_PROXIES_SETTING]),
    apiSocket: environment.SLIPWAY_API_SOCKET ? text('SLIPWAY_API_SOCKET', /^\//, '/run/slipway/api.sock') : undefined,
    pods: { realtime: pods('realtime'), storage: pods('storage'), functions: pods('functions') },
    kubeconfig: environment.KUBECONFIG || undefined,
    rateLimit: rateLimit(environment.SLIPWAY_RATE_LIMIT),
    storage: storage(environment.SLIPWAY_STORAGE_DIR, environment.SLIPWAY_STORAGE_S3),
    functions: functions(environment),
    metricsListen: environment.SLIPWAY_METRICS_LISTEN
      ? text('SLIPWAY_METRICS_LISTEN', /^[^/]+:\d{1,5}$/, '0.0.0.0:9090')
      : undefined,
    logLevel,
  };
}

function functions(environment: Record<string, string | undefined>): FunctionsSettings | undefined {
  const {
    SLIPWAY_FUNCTIONS_DIR: home,
    SLIPWAY_FUNCTIONS_SOCKET: socket,
    SLIPWAY_FUNCTIONS_CONTROL: listen,
    SLIPWAY_DATAPLANE_URL: gatewayUrl,
  } = environment;
  if (!home && !socket && !listen) return undefined;
  if (!home) throw new Error('SLIPWAY_FUNCTIONS_DIR is not set: it is like /var/lib/slipway/functions');
  if (!listen) {
    if (!socket) throw new Error('SLIPWAY_FUNCTIONS_SOCKET is not set: it is like /run/slipway/functions.sock');
    return { home, control: { socket }, gatewayUrl: undefined };
  }
  if (!/^[^/]+:\d{1,5}$/.test(listen)) {
    throw new Error(`SLIPWAY_FUNCTIONS_CONTROL is ${JSON.stringify(listen)}: it is like 0.0.0.0:8081`);
  }
  if (!gatewayUrl) throw new Error('SLIPWAY_DATAPLANE_URL is not set: it is like http://slipway-dataplane');
  if (!/^http:\/\/[^/?#@]+\/?$/.test(gatewayUrl) || !URL.canParse(gatewayUrl)) {
    throw new Error(`SLIPWAY_DATAPLANE_URL is ${JSON.stringify(gatewayUrl)}: it is like http://slipway-dataplane`);
  }
  const { SLIPWAY_FUNCTIONS_TOKEN: file } = environment;
  if (!file) throw new Error('SLIPWAY_FUNCTIONS_TOKEN is not set: it is the path of a file');
  // Read again for each request: the Secret that is mounted there may be replaced.
  const token = () => functionsToken(file);
  token();
  return { home, control: { listen, token }, gatewayUrl };
}

function functionsToken(file: string): string {
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new Error(`SLIPWAY_FUNCTIONS_TOKEN: ${file} can not be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (token.length < 32) throw new Error('SLIPWAY_FUNCTIONS_TOKEN: the file must hold at least 32 characters');
  return token;
}

function rateLimit(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new Error(`SLIPWAY_RATE_LIMIT is ${JSON.stringify(text)}: it is like 1000`);
  return Number(text);
}

/** A folder, and the path of a JSON file that says which S3 holds the files, if not that folder. */
function storage(directory: string | undefined, s3: string | undefined): DataplaneSettings['storage'] {
  if (!directory) {
    if (s3) throw new Error('SLIPWAY_STORAGE_DIR is not set: with SLIPWAY_STORAGE_S3 it is where uploads are gathered');
    return undefined;
  }
  if (!directory.startsWith('/')) throw new Error('SLIPWAY_STORAGE_DIR must be an absolute path');
  return { directory, s3: s3 ? s3Settings(s3) : undefined };
}

const S3_FIELDS = ['bucket', 'region', 'accessKeyId', 'secretAccessKey'] as const;

function s3Settings(file: string): S3Settings {
  let said: Record<string, unknown>;
  try {
    said = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new Error(
      `SLIPWAY_STORAGE_S3: ${file} can not be read as JSON (${(error as NodeJS.ErrnoException).code ?? 'syntax'})`,
    );
  }
  const missing = S3_FIELDS.find((field) => typeof said[field] !== 'string' || said[field] === '');
  if (missing) throw new Error(`SLIPWAY_STORAGE_S3: the file has no ${missing}`);
  return { ...(said as unknown as S3Settings), endpoint: said.endpoint as string | undefined };
}
