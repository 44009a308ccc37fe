/** The API's settings: read once from the environment by `main.ts`, or given by a test. */
import { readFileSync } from 'node:fs';
import {
  API_RATE_LIMIT_SETTING,
  type Installation,
  PLANS,
  POD_URLS_SETTINGS,
  PROGRAMS,
  PROJECT_TYPES,
  REGISTRATION_SETTING,
  type Registration,
  readInstallation,
  readPodUrls,
  readRegistration,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import type { RequestLimitSettings } from './http/request-limits.js';
import { type MailSettings, mailSettings } from './mail/mail-settings.js';

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
  /** The server that mails to accounts are sent by; undefined: none are sent. */
  mail?: MailSettings | undefined;
  /** `host:port` at which Prometheus reads metrics; undefined: none are kept. */
  metricsListen?: string | undefined;
  accounts: AccountSettings;
  requestLimits: RequestLimitSettings;
  /** For tests: makes the refs of new projects. */
  newRef?: (() => string) | undefined;
  logLevel: string;
}

/** Limits of an account. */
export interface Allowances {
  plans: readonly string[];
  types: readonly string[];
  maxProjects: number;
}

export interface AccountSettings {
  registration: Registration;
  /**
   * True while only this machine can reach the platform: the first account then becomes administrator without a code.
   */
  localOnly: boolean;
  /**
   * The one-time code of the first administrator; undefined: there is none. Read at each use, as a mounted Secret may
   * appear later.
   */
  setupCode(): string | undefined;
  /** Limits of accounts for which no administrator set any. */
  defaults: Allowances;
}

export function settingsFromEnvironment(environment: NodeJS.ProcessEnv): ApiSettings {
  const listen = needed(environment, 'SLIPWAY_LISTEN');
  const installation = readInstallation(environment);
  const settings: ApiSettings = {
    ...installation,
    listen,
    databaseUrl: databaseUrl(environment),
    jwtSecret: jwtSecret(fileOf(environment, 'SLIPWAY_JWT_SECRET')),
    encryptionKeys: encryptionKeys(fileOf(environment, 'SLIPWAY_ENCRYPTION_KEYS')),
    dataplaneUrl: (environment.SLIPWAY_DATAPLANE_URL || dataplaneOf(installation)).replace(/\/+$/, ''),
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
    functionsPods: functionsPods(environment),
    mail: mailSettings(environment, (variable) => fileOf(environment, variable)),
    metricsListen: metricsListen(environment.SLIPWAY_METRICS_LISTEN),
    accounts: accountSettings(environment, installation),
    requestLimits: requestLimits(environment, installation),
    logLevel: logLevel(environment.SLIPWAY_LOG_LEVEL ?? 'info'),
  };
  expectMailForDomains(settings);
  return environment.KUBECONFIG ? { ...settings, kubeconfig: environment.KUBECONFIG } : settings;
}

export const UNRESTRICTED: Allowances = { plans: PLANS, types: PROJECT_TYPES, maxProjects: 1000 };
const RESTRICTED: Allowances = { plans: ['free'], types: ['shared'], maxProjects: 2 };

function accountSettings(environment: NodeJS.ProcessEnv, { site }: Installation): AccountSettings {
  const setupCode = () => setupCodeIn(environment.SLIPWAY_SETUP_CODE);
  if (site) {
    if (environment[REGISTRATION_SETTING]) {
      throw new Error(
        `${REGISTRATION_SETTING} is set on a cluster: set accounts.registration in the site settings instead`,
      );
    }
    const { registration, plans, types, maxProjects } = site.accounts;
    const defaults = { plans, types, maxProjects };
    return { registration: readRegistration(registration), localOnly: false, setupCode, defaults };
  }
  const localOnly = environment.SLIPWAY_LOCAL_ONLY === '1';
  const registration = readRegistration(environment[REGISTRATION_SETTING] || (localOnly ? 'open' : 'invite'));
  return { registration, localOnly, setupCode, defaults: localOnly ? UNRESTRICTED : RESTRICTED };
}

const DEFAULT_PER_MINUTE = 1200;

function requestLimits(environment: NodeJS.ProcessEnv, { site }: Installation): RequestLimitSettings {
  const text = environment[API_RATE_LIMIT_SETTING];
  if (site) {
    if (text) throw new Error(`${API_RATE_LIMIT_SETTING} is set on a cluster: set accounts.requestsPerMinute instead`);
    return { perMinute: site.accounts.requestsPerMinute, sparesLoopback: true, sparesLocalAccounts: false };
  }
  if (text && !/^\d{1,9}$/.test(text)) {
    throw new Error(`${API_RATE_LIMIT_SETTING} is ${JSON.stringify(text)}: it must be a whole number, such as 1200`);
  }
  const isDefault = !text;
  return {
    perMinute: isDefault ? DEFAULT_PER_MINUTE : Number(text),
    sparesLoopback: isDefault,
    sparesLocalAccounts: isDefault && environment.SLIPWAY_LOCAL_ONLY === '1',
  };
}

/** Only a mail shows that an address of a domain is the caller's. */
function expectMailForDomains({ accounts, mail }: ApiSettings): void {
  if (accounts.registration.mode !== 'domains' || mail) return;
  throw new Error(
    `${REGISTRATION_SETTING} names mail domains: set SLIPWAY_SMTP_URL too, as codes are mailed to the addresses`,
  );
}

function setupCodeIn(file: string | undefined): string | undefined {
  if (!file) return undefined;
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new Error(`SLIPWAY_SETUP_CODE: ${file} cannot be read (${code})`);
  }
}

/** All that a command on the platform database needs. */
export const databaseUrl = (environment: NodeJS.ProcessEnv) => needed(environment, 'SLIPWAY_DATABASE_URL');

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
