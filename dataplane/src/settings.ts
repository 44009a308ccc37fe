/** Settings of the data plane from the environment: read once and checked; an error names the invalid variable. */

import { readFileSync } from 'node:fs';
import type { BlockList } from 'node:net';
import path from 'node:path';
import {
  ALLOWED_HOSTS_SETTING,
  FORMS_PORT,
  FORMS_SERVICE,
  type Installation,
  POD_URLS_SETTINGS,
  readAllowedHosts,
  readInstallation,
  readPodUrls,
  readTrustedProxies,
  TRUSTED_PROXIES_SETTING,
} from '@slipway/installation';
import {
  type Environment,
  expectOneOf,
  type InternalPlace,
  LISTEN_FORM,
  logLevelOf,
  METRICS_FORM,
  optionalSettingOf,
  type Reach,
  readReach,
  type SettingForm,
  settingOf,
  tokenSettingOf,
} from '@slipway/program';
import type { EntryPlace } from './services/hosting/forms/entry-store.js';
import type { S3Settings } from './services/storage/content/s3.js';

export interface DataplaneSettings {
  /** Address to listen at: `host:port`, or the path of a Unix socket. */
  listen: string;
  /** Public URL and projects' domain, and on a cluster the site's settings. */
  installation: Installation;
  /** Host names of a one-machine platform, besides localhost, the public URL's and projects'. */
  allowedHosts?: readonly string[];
  /** Reverse proxies whose X-Forwarded-For is trusted; undefined: none. */
  trustedProxies?: BlockList | undefined;
  /** Unix socket to which management routes are forwarded; undefined: the API runs elsewhere. */
  apiSocket: string | undefined;
  /** URLs of the pods of services that run in their own pods. */
  pods: Readonly<Record<keyof typeof POD_URLS_SETTINGS, readonly string[]>>;
  /** Path of a kubeconfig; undefined: the service account of the pod. */
  kubeconfig: string | undefined;
  /**
   * Requests in a second from one address to one project; 0: no limit; undefined: the default, which exempts loopback.
   */
  rateLimit: number | undefined;
  /** Undefined: this data plane runs no storage service. */
  storage: StorageSettings | undefined;
  /** Undefined: this data plane serves plain HTTP alone, as behind an ingress or a proxy. */
  tls?: TlsSettings | undefined;
  /** Folder of the sites' deployments; undefined: this data plane serves no sites. */
  sites?: string | undefined;
  /** Where the API stores entries of forms; undefined: sites accept no forms. */
  forms?: EntryPlace | undefined;
  /** Store through which builds on other machines publish to that folder; undefined: builds run on this machine. */
  siteStore?: SiteStoreSettings | undefined;
  /** Undefined: this data plane runs no functions. */
  functions: FunctionsSettings | undefined;
  /** Networks that auth and functions of one machine may connect to. A cluster's are in `installation.site`. */
  reach?: Reach;
  /** `host:port` of the metrics; undefined: no metrics are collected. */
  metricsListen: string | undefined;
  /** Undefined: owners have no logs here. */
  projectLogs?: ProjectLogsSettings | undefined;
  /** Path of the file that records projects for which the data plane hung; undefined: not recorded. */
  hangRecord?: string | undefined;
  logLevel: string;
}

export interface StorageSettings {
  /** Folder of content, or of incomplete uploads if content is in S3. */
  directory: string;
  s3: S3Settings | undefined;
}

export interface ProjectLogsSettings {
  /** Folder of the logs. Undefined: they are in memory alone, as on a pod without a disk. */
  folder: string | undefined;
  /** Place at which the API reads them. */
  control: InternalPlace;
}

export interface TlsSettings {
  /** `host:port` of HTTPS. */
  listen: string;
  /** `host:port` of plain HTTP, for challenges and redirects; undefined: there is none. */
  plainListen: string | undefined;
  /** Folder of the certificates that the operator orders. */
  folder: string;
  /** Files in PEM that are used in place of those. */
  files: { certificate: string; key: string } | undefined;
}

export interface SiteStoreSettings {
  /** `host:port`. */
  listen: string;
  /** Folder of build logs. */
  logs: string;
  /** Returns the present token of the platform. */
  token(): string;
}

export interface FunctionsSettings {
  /** Folder of deployed functions. */
  home: string;
  control: InternalPlace;
  /** URL to which calls of functions to the public URL are forwarded; undefined: they are served here. */
  gatewayUrl: string | undefined;
  /** File (PEM) of all certificate authorities that functions trust; undefined: the system's and Deno's own. */
  authorities?: string | undefined;
}

export function readSettings(environment: Environment): DataplaneSettings {
  const pods = (service: keyof typeof POD_URLS_SETTINGS) =>
    readPodUrls(POD_URLS_SETTINGS[service], environment[POD_URLS_SETTINGS[service]]);
  return {
    listen: settingOf(environment, 'SLIPWAY_LISTEN', LISTEN_FORM),
    installation: readInstallation(environment),
    allowedHosts: readAllowedHosts(environment[ALLOWED_HOSTS_SETTING]),
    trustedProxies: readTrustedProxies(environment[TRUSTED_PROXIES_SETTING]),
    apiSocket: optionalSettingOf(environment, 'SLIPWAY_API_SOCKET', pathLike('/run/slipway/api.sock')),
    pods: {
      realtime: pods('realtime'),
      storage: pods('storage'),
      functions: pods('functions'),
      hosting: pods('hosting'),
    },
    kubeconfig: environment.KUBECONFIG || undefined,
    rateLimit: readRateLimit(environment),
    storage: readStorage(environment),
    tls: tls(environment),
    sites: optionalSettingOf(environment, 'SLIPWAY_SITES_DIR', pathLike('/var/lib/slipway/sites')),
    forms: formsPlace(environment),
    siteStore: siteStore(environment),
    functions: readFunctions(environment),
    reach: readReach(environment),
    metricsListen: optionalSettingOf(environment, 'SLIPWAY_METRICS_LISTEN', METRICS_FORM),
    projectLogs: readProjectLogs(environment),
    hangRecord: optionalSettingOf(environment, 'SLIPWAY_HANG_RECORD', pathLike('/var/lib/slipway/hangs.json')),
    logLevel: logLevelOf(environment),
  };
}

export const pathLike = (like: string): SettingForm => ({ pattern: /^\//, like });
const originLike = (like: string): SettingForm => ({ pattern: /^http:\/\/[^/?#@\s]+\/?$/, like });
const DATAPLANE_URL = originLike('http://slipway-dataplane');
const FORMS_URL = originLike(`http://${FORMS_SERVICE}:${FORMS_PORT}`);

function readProjectLogs(environment: Environment): ProjectLogsSettings | undefined {
  const form = { ...METRICS_FORM, like: '0.0.0.0:8081' };
  const listen = optionalSettingOf(environment, 'SLIPWAY_PROJECT_LOGS_LISTEN', form);
  if (listen !== undefined) {
    const token = tokenSettingOf(environment, 'SLIPWAY_PROJECT_LOGS_TOKEN');
    return { folder: undefined, control: { listen, token } };
  }
  if (!environment.SLIPWAY_PROJECT_LOGS_DIR && !environment.SLIPWAY_PROJECT_LOGS_SOCKET) return undefined;
  const socket = settingOf(environment, 'SLIPWAY_PROJECT_LOGS_SOCKET', pathLike('/run/slipway/logs.sock'));
  const folder = settingOf(environment, 'SLIPWAY_PROJECT_LOGS_DIR', pathLike('/var/lib/slipway/project-logs'));
  return { folder, control: { socket } };
}

export function readFunctions(environment: Environment): FunctionsSettings | undefined {
  const { SLIPWAY_FUNCTIONS_DIR: home, SLIPWAY_FUNCTIONS_SOCKET: socket } = environment;
  const listen = optionalSettingOf(environment, 'SLIPWAY_FUNCTIONS_CONTROL', { ...METRICS_FORM, like: '0.0.0.0:8081' });
  if (!home && !socket && !listen) return undefined;
  if (!home) throw new Error('SLIPWAY_FUNCTIONS_DIR is not set. Set a path such as /var/lib/slipway/functions');
  const authorities = optionalSettingOf(environment, 'SLIPWAY_CA_FILE', pathLike('/etc/ssl/authorities.pem'));
  if (!listen) {
    if (!socket) throw new Error('SLIPWAY_FUNCTIONS_SOCKET is not set. Set a path such as /run/slipway/functions.sock');
    return { home, control: { socket }, gatewayUrl: undefined, authorities };
  }
  const gatewayUrl = readGatewayUrl(environment);
  const token = tokenSettingOf(environment, 'SLIPWAY_FUNCTIONS_TOKEN');
  return { home, control: { listen, token }, gatewayUrl, authorities };
}

export const readGatewayUrl = (environment: Environment): string =>
  asUrl('SLIPWAY_DATAPLANE_URL', settingOf(environment, 'SLIPWAY_DATAPLANE_URL', DATAPLANE_URL), DATAPLANE_URL);

function asUrl(name: string, url: string, { like }: SettingForm): string {
  if (!URL.canParse(url)) throw new Error(`${name} is no URL. Set one such as ${like}`);
  return url;
}

function tls(environment: Environment): TlsSettings | undefined {
  const port = { ...METRICS_FORM, like: '0.0.0.0:443' };
  const listen = optionalSettingOf(environment, 'SLIPWAY_HTTPS_LISTEN', port);
  if (listen === undefined) return undefined;
  const certificate = optionalSettingOf(environment, 'SLIPWAY_CERTIFICATE', pathLike('/etc/ssl/slipway.pem'));
  return {
    listen,
    plainListen: optionalSettingOf(environment, 'SLIPWAY_HTTP_LISTEN', { ...port, like: '0.0.0.0:80' }),
    folder: settingOf(environment, 'SLIPWAY_CERTIFICATES_DIR', pathLike('/var/lib/slipway/certificates')),
    files: certificate === undefined ? undefined : { certificate, key: keyOf(environment) },
  };
}

const keyOf = (environment: Environment): string =>
  settingOf(environment, 'SLIPWAY_CERTIFICATE_KEY', pathLike('/etc/ssl/private/slipway.key'));

/** Returns the API's socket, or its origin with the token, which on a cluster the API has too. */
function formsPlace(environment: Environment): EntryPlace | undefined {
  expectOneOf(environment, 'SLIPWAY_FORMS_SOCKET', 'SLIPWAY_FORMS_URL');
  const socket = optionalSettingOf(environment, 'SLIPWAY_FORMS_SOCKET', pathLike('/run/slipway/forms.sock'));
  if (socket !== undefined) return { socket };
  const url = optionalSettingOf(environment, 'SLIPWAY_FORMS_URL', FORMS_URL);
  if (url === undefined) return undefined;
  const token = tokenSettingOf(environment, 'SLIPWAY_HOSTING_TOKEN');
  return { origin: asUrl('SLIPWAY_FORMS_URL', url, FORMS_URL), token };
}

function siteStore(environment: Environment): SiteStoreSettings | undefined {
  const form = { ...METRICS_FORM, like: '0.0.0.0:8081' };
  const listen = optionalSettingOf(environment, 'SLIPWAY_HOSTING_STORE', form);
  if (listen === undefined) return undefined;
  settingOf(environment, 'SLIPWAY_SITES_DIR', pathLike('/var/lib/slipway/sites'));
  const builds = settingOf(environment, 'SLIPWAY_BUILDS_DIR', pathLike('/var/lib/slipway/builds'));
  return { listen, logs: path.join(builds, 'logs'), token: tokenSettingOf(environment, 'SLIPWAY_HOSTING_TOKEN') };
}

export function readRateLimit(environment: Environment): number | undefined {
  const text = optionalSettingOf(environment, 'SLIPWAY_RATE_LIMIT', { pattern: /^\d{1,9}$/, like: '1000' });
  return text === undefined ? undefined : Number(text);
}

/** Folder, and the path of a JSON file that describes the S3 of the content, if any. */
export function readStorage(environment: Environment): StorageSettings | undefined {
  const { SLIPWAY_STORAGE_DIR: directory, SLIPWAY_STORAGE_S3: s3 } = environment;
  if (!directory) {
    if (s3)
      throw new Error('SLIPWAY_STORAGE_DIR is not set. With SLIPWAY_STORAGE_S3 it is the folder of incomplete uploads');
    return undefined;
  }
  if (!directory.startsWith('/')) throw new Error('SLIPWAY_STORAGE_DIR must be an absolute path');
  return { directory, s3: s3 ? s3Settings(s3) : undefined };
}

const S3_FIELDS = ['bucket', 'region', 'accessKeyId', 'secretAccessKey'] as const;

function s3Settings(file: string): S3Settings {
  let json: Record<string, unknown>;
  try {
    json = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new Error(
      `SLIPWAY_STORAGE_S3: ${file} can not be read as JSON (${(error as NodeJS.ErrnoException).code ?? 'syntax'})`,
    );
  }
  const missing = S3_FIELDS.find((field) => typeof json[field] !== 'string' || json[field] === '');
  if (missing) throw new Error(`SLIPWAY_STORAGE_S3: the file has no ${missing}`);
  return { ...(json as unknown as S3Settings), endpoint: json.endpoint as string | undefined };
}
