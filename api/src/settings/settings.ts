/** Settings of the API: read once from the environment by `main.ts`, or passed by a test. */

import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { PLANS, PROJECT_TYPES, TYPES_OF_ACCOUNTS } from '@slipway/crds';
import {
  API_RATE_LIMIT_SETTING,
  FORMS_PORT,
  type Installation,
  LOGS_PORT,
  LOGS_SERVICE,
  POD_URLS_SETTINGS,
  PROGRAMS,
  REGISTRATION_SETTING,
  type Registration,
  readInstallation,
  readPodUrls,
  readRegistration,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import {
  expectOneOf,
  fileSettingOf,
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
import { type MailSettings, mailSettings } from './mail-settings.js';

export interface ApiSettings extends Installation {
  /** Address to listen at: `host:port`, or the path of a Unix socket. */
  listen: string;
  /** URL of the platform database. */
  databaseUrl: string;
  /** Path of a kubeconfig file; without one, the pod's service account is used. */
  kubeconfig?: string;
  /** Key that signs user tokens. */
  jwtSecret: string;
  encryptionKeys: { current: string; keys: Record<string, string> };
  /** Base URL of the data plane, as seen from this program. */
  dataplaneUrl: string;
  /** Unix socket of the data plane for logs of functions; undefined: this installation runs no functions. */
  functionsSocket?: string | undefined;
  /** Gateways that have logs of projects. Undefined: this installation stores no logs for owners. */
  projectLogs?: ProjectLogsSettings | undefined;
  /** Place at which the API accepts entries of forms from the data plane. Undefined: it accepts none. */
  forms?: InternalPlace | undefined;
  /** Folder of builds and their logs; undefined: this installation runs no builds. */
  buildsFolder?: string | undefined;
  /** Pods that run functions, on a cluster. */
  functionsPods?: Pods | undefined;
  /** Pods that have sites and logs of builds, on a cluster. */
  hostingPods?: Pods | undefined;
  /** Server for mails to accounts; undefined: no mails are sent. */
  mail?: MailSettings | undefined;
  /** Address, `host:port`, for Prometheus; undefined: no metrics are collected. */
  metricsListen?: string | undefined;
  accounts: AccountSettings;
  requestLimits: RequestLimitSettings;
  /** Creates refs of new projects, for tests. */
  newRef?: (() => string) | undefined;
  /** Milliseconds for which a restart of a machine's service waits for the operator, for tests. Default: a minute. */
  restartTimeoutMs?: number | undefined;
  /** The clock of notifications and forms, for tests. */
  now?: (() => Date) | undefined;
  /** Networks that addresses of tenants may reach. Undefined: the internet alone. */
  reach?: Reach | undefined;
  logLevel: string;
}

/** A Unix socket; on a cluster, the present addresses of all gateways, and the current token for them. */
export type ProjectLogsSettings =
  | { socketPath: string }
  | { gateways(): Promise<{ host: string; port: number }[]>; token(): string };

/** URLs of the pods of a service, and the current token for them. */
export interface Pods {
  urls: readonly string[];
  token(): string;
}

export interface RequestLimitSettings {
  /** Requests that an account may send in a minute, also all at once; 0: no limit. */
  perMinute: number;
  /** Loopback addresses are not counted, as a reverse proxy or the owner's programs use them. */
  sparesLoopback: boolean;
  /** Accounts are not counted for requests from loopback if no other machine can reach the platform. */
  sparesLocalAccounts: boolean;
}

/** Limits of an account. */
export interface Allowances {
  plans: readonly string[];
  types: readonly string[];
  maxProjects: number;
  /** Projects with a machine of their own. */
  maxMachines: number;
}

export interface AccountSettings {
  registration: Registration;
  /** True if only this machine can reach the platform: then the first account becomes administrator without a code. */
  localOnly: boolean;
  /**
   * Returns the one-time code of the first administrator, if there is one. Read at each use, as a mounted Secret may
   * appear later.
   */
  setupCode(): string | undefined;
  /** Limits of accounts for which no administrator set others. */
  defaults: Allowances;
}

export function settingsFromEnvironment(environment: NodeJS.ProcessEnv): ApiSettings {
  const listen = settingOf(environment, 'SLIPWAY_LISTEN', LISTEN_FORM);
  const installation = readInstallation(environment);
  const settings: ApiSettings = {
    ...installation,
    listen,
    databaseUrl: databaseUrl(environment),
    jwtSecret: jwtSecret(fileSettingOf(environment, 'SLIPWAY_JWT_SECRET')),
    encryptionKeys: encryptionKeys(fileSettingOf(environment, 'SLIPWAY_ENCRYPTION_KEYS')),
    dataplaneUrl: (environment.SLIPWAY_DATAPLANE_URL || dataplaneOf(installation)).replace(/\/+$/, ''),
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
    projectLogs: projectLogs(environment),
    forms: formsPlace(environment),
    buildsFolder: environment.SLIPWAY_BUILDS_DIR || undefined,
    functionsPods: podsOf(environment, 'functions', 'SLIPWAY_FUNCTIONS_TOKEN'),
    hostingPods: podsOf(environment, 'hosting', 'SLIPWAY_HOSTING_TOKEN'),
    mail: mailSettings(environment, (variable) => fileSettingOf(environment, variable)),
    metricsListen: optionalSettingOf(environment, 'SLIPWAY_METRICS_LISTEN', METRICS_FORM),
    accounts: accountSettings(environment, installation),
    requestLimits: requestLimits(environment, installation),
    reach: readReach(environment),
    logLevel: logLevelOf(environment),
  };
  expectMailForDomains(settings);
  return environment.KUBECONFIG ? { ...settings, kubeconfig: environment.KUBECONFIG } : settings;
}

export const UNRESTRICTED: Allowances = {
  plans: PLANS,
  types: PROJECT_TYPES,
  maxProjects: 1000,
  maxMachines: 1000,
};
/** An administrator who lets an account use machines lets it use one, unless that account gets another number. */
const MACHINES = 1;
const RESTRICTED: Allowances = {
  plans: ['free'],
  types: TYPES_OF_ACCOUNTS,
  maxProjects: 2,
  maxMachines: MACHINES,
};

function accountSettings(environment: NodeJS.ProcessEnv, { site }: Installation): AccountSettings {
  const setupCode = () => setupCodeIn(environment.SLIPWAY_SETUP_CODE);
  if (site) {
    if (environment[REGISTRATION_SETTING]) {
      throw new Error(
        `${REGISTRATION_SETTING} is set on a cluster: set accounts.registration in the site settings instead`,
      );
    }
    const { registration, plans, types, maxProjects } = site.accounts;
    const defaults = { plans, types, maxProjects, maxMachines: MACHINES };
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

/** A mailed code is the only proof that an address of a domain is the caller's. */
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

const DATABASE_URL: SettingForm = {
  pattern: /./,
  like: 'postgresql://user:password@/platform?host=/run/postgres&port=4002',
};

/** Reads the setting of a command on the platform database: the database's URL. */
export const databaseUrl = (environment: NodeJS.ProcessEnv) =>
  settingOf(environment, 'SLIPWAY_DATABASE_URL', DATABASE_URL);

/** Default URL of the data plane: its Service on a cluster, the public URL on one machine. */
const dataplaneOf = ({ site, publicUrl }: Installation) =>
  site ? `http://${PROGRAMS.dataplane}.${SYSTEM_NAMESPACE}.svc` : publicUrl;

const FORMS_LISTEN: SettingForm = { ...METRICS_FORM, like: `0.0.0.0:${FORMS_PORT}` };

function podsOf(environment: NodeJS.ProcessEnv, service: 'functions' | 'hosting', variable: string): Pods | undefined {
  const setting = POD_URLS_SETTINGS[service];
  const urls = readPodUrls(setting, environment[setting]);
  if (urls.length === 0) return undefined;
  // Read at each use, as a mounted Secret may be replaced.
  const token = () => fileSettingOf(environment, variable);
  token();
  return { urls, token };
}

const LOGS_HOST: SettingForm = { pattern: /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, like: LOGS_SERVICE };

function projectLogs(environment: NodeJS.ProcessEnv): ProjectLogsSettings | undefined {
  const socketPath = environment.SLIPWAY_PROJECT_LOGS_SOCKET;
  if (socketPath) return { socketPath };
  const host = optionalSettingOf(environment, 'SLIPWAY_PROJECT_LOGS_HOST', LOGS_HOST);
  if (host === undefined) return undefined;
  const token = tokenSettingOf(environment, 'SLIPWAY_PROJECT_LOGS_TOKEN');
  const gateways = async () =>
    (await lookup(host, { all: true })).map(({ address }) => ({ host: address, port: LOGS_PORT }));
  return { gateways, token };
}

/** On a cluster, the pods of sites send entries to a port, with the token that they have for their own store. */
function formsPlace(environment: NodeJS.ProcessEnv): InternalPlace | undefined {
  expectOneOf(environment, 'SLIPWAY_FORMS_SOCKET', 'SLIPWAY_FORMS_LISTEN');
  const listen = optionalSettingOf(environment, 'SLIPWAY_FORMS_LISTEN', FORMS_LISTEN);
  if (listen !== undefined) return { listen, token: tokenSettingOf(environment, 'SLIPWAY_HOSTING_TOKEN') };
  const socket = environment.SLIPWAY_FORMS_SOCKET;
  return socket ? { socket } : undefined;
}

function jwtSecret(value: string): string {
  if (Buffer.byteLength(value) < 32) throw new Error('SLIPWAY_JWT_SECRET: the file must hold at least 32 bytes');
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
      'the file must be {"current": "<id>", "keys": {"<id>": "<32 bytes, base64>"}}, ' +
        'with the current id among the keys',
    );
  }
  for (const [id, key] of Object.entries(keys)) {
    if (typeof key !== 'string' || Buffer.from(key, 'base64').length !== 32)
      throw wrong(`key ${id} is not 32 bytes of base64`);
  }
  return { current, keys: keys as Record<string, string> };
}
