/**
 * A person's settings, read once from the environment by `main.ts` and checked here; everything else follows from them.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import path from 'node:path';
import {
  ALLOWED_HOSTS_SETTING,
  API_RATE_LIMIT_SETTING,
  CORS_ORIGINS_SETTING,
  checkPlatformHost,
  openedServices,
  PROJECTS_DOMAIN_SETTING,
  REGISTRATION_SETTING,
  readAllowedHosts,
  readOrigins,
  readProjectsDomain,
  readRegistration,
  readTrustedProxies,
  SHARED_SERVICES_SETTING,
  TRUSTED_PROXIES_SETTING,
} from '@slipway/crds';
import { StartProblem } from './problem.js';

export interface Settings {
  /** Where all data, secrets and logs are. */
  home: string;
  /** The address for people. */
  host: string;
  /** The addresses of the Kubernetes API and of Postgres: loopback unless set, wherever people's is. */
  kubernetesHost: string;
  postgresHost: string;
  ports: { people: number; kubernetes: number; postgres: number };
  /** The URL that people type, without a slash at the end. */
  publicUrl: string;
  /** True while only this machine can reach the platform. Registration is open by default only then. */
  localOnly: boolean;
  /** The registration policy, in the form of SLIPWAY_REGISTRATION. */
  registration: string;
  /** Variables that are passed on unchanged to the programs that read them. */
  passedOn: Readonly<Record<string, string>>;
  logLevel: string;
}

/**
 * The programs that read them check them too; here a wrong one is said at once, before a program ends over it again and
 * again.
 */
const PASSED_ON = [
  SHARED_SERVICES_SETTING,
  ALLOWED_HOSTS_SETTING,
  CORS_ORIGINS_SETTING,
  PROJECTS_DOMAIN_SETTING,
  TRUSTED_PROXIES_SETTING,
  'SLIPWAY_RATE_LIMIT',
  API_RATE_LIMIT_SETTING,
  'SLIPWAY_STORAGE_DIR',
  'SLIPWAY_STORAGE_S3',
  'SLIPWAY_SMTP_URL',
  'SLIPWAY_SMTP_FROM',
];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Each setting, for `--help`. */
export const SETTINGS_HELP = `
  SLIPWAY_HOME        where data, secrets and logs are kept              (.slipway)
  SLIPWAY_PORT        the port for people; the next two are those of
                      the Kubernetes API and of Postgres                 (4000)
  SLIPWAY_HOST        the IP address of the port for people; 0.0.0.0
                      for all                                            (127.0.0.1)
  SLIPWAY_KUBERNETES_HOST
                      the IP address of the Kubernetes API               (127.0.0.1)
  SLIPWAY_POSTGRES_HOST
                      the IP address of Postgres, for db_url             (127.0.0.1)
  SLIPWAY_PUBLIC_URL  what people type to get here                       (http://localhost:4000)
  SLIPWAY_REGISTRATION
                      who may register an account: open, invite, closed,
                      or mail domains such as @example.com
                                       (open while only this machine can
                                       reach the platform, else invite)
  SLIPWAY_PROJECTS_DOMAIN
                      the domain below which projects are, as
                      <ref>.<domain>                     (paths of the public URL)
  SLIPWAY_ALLOWED_HOSTS
                      host names that are answered, beside localhost,
                      IP addresses, this machine's name, and those of
                      the public URL and of projects                     (none)
  SLIPWAY_CORS_ORIGINS
                      origins whose pages may call the management API,
                      beside its own                                     (none)
  SLIPWAY_TRUSTED_PROXIES
                      addresses or networks of reverse proxies whose
                      X-Forwarded-For counts                             (none)
  SLIPWAY_SERVICES_SHARED
                      services that shared projects have beyond the
                      availability matrix, such as storage,functions     (none)
  SLIPWAY_RATE_LIMIT  requests a second of one address to one project;
                      0 for no limit (without it this machine's own
                      addresses have none)                               (1000)
  SLIPWAY_API_RATE_LIMIT
                      requests a minute of one account to the management
                      API, where costly ones count more; 0 for no limit
                      (without it this machine's own have none)          (1200)
  SLIPWAY_STORAGE_DIR the folder of the storage service's files          (<home>/storage)
  SLIPWAY_STORAGE_S3  a JSON file that names the S3 bucket of the files,
                      if they aren't in that folder                      (none)
  SLIPWAY_SMTP_URL    a file with the SMTP server that mails to accounts
                      are sent by, smtp://user:password@host:587         (no mail)
  SLIPWAY_SMTP_FROM   the address that they come from                    (none)
  SLIPWAY_LOG_LEVEL   ${LOG_LEVELS.join(', ')}  (info)
`;

export function readSettings(environment: NodeJS.ProcessEnv, folder: string): Settings {
  const home = homeOf(environment, folder);
  const port = portNumber(environment.SLIPWAY_PORT || '4000');
  const host = ipAddress('SLIPWAY_HOST', environment.SLIPWAY_HOST || '127.0.0.1');
  // These two are for administrators: opening the port for people does not open them.
  const closed = isLoopback(host) ? host : '127.0.0.1';
  const kubernetesHost = ipAddress('SLIPWAY_KUBERNETES_HOST', environment.SLIPWAY_KUBERNETES_HOST || closed);
  const postgresHost = ipAddress('SLIPWAY_POSTGRES_HOST', environment.SLIPWAY_POSTGRES_HOST || closed);
  const url = publicUrl(
    environment.SLIPWAY_PUBLIC_URL || `http://${isLoopback(host) ? 'localhost' : inUrl(reachableAt(host))}:${port}`,
  );
  const localOnly =
    [host, kubernetesHost, postgresHost].every(isLoopback) && isLoopbackUrl(url) && !isFronted(environment);
  return {
    home,
    host,
    kubernetesHost,
    postgresHost,
    ports: { people: port, kubernetes: port + 1, postgres: port + 2 },
    publicUrl: url,
    localOnly,
    registration: registration(environment[REGISTRATION_SETTING] || (localOnly ? 'open' : 'invite')),
    passedOn: passedOn(environment, folder, url),
    logLevel: logLevel(environment.SLIPWAY_LOG_LEVEL || 'info'),
  };
}

/** All that ending a platform asks for: a wrong setting is no reason to keep it running. */
export const homeOf = (environment: NodeJS.ProcessEnv, folder: string) =>
  path.resolve(folder, environment.SLIPWAY_HOME || '.slipway');

/** An address that connects to a program that listens at `host`, from this machine. */
export function reachableAt(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

export const inUrl = (host: string) => (isIP(host) === 6 ? `[${host}]` : host);
export const isLoopback = (host: string) => host.startsWith('127.') || host === '::1';

/** Whether something in front may bring requests of other machines to loopback. */
const isFronted = (environment: NodeJS.ProcessEnv): boolean =>
  Boolean(environment[TRUSTED_PROXIES_SETTING] || environment[ALLOWED_HOSTS_SETTING]);

function isLoopbackUrl(url: string): boolean {
  const { hostname } = new URL(url);
  const isAddress = isIP(hostname.replace(/^\[|\]$/g, '')) > 0;
  if (isAddress) return isLoopback(hostname.replace(/^\[|\]$/g, ''));
  return hostname === 'localhost' || hostname.endsWith('.localhost');
}

function registration(text: string): string {
  try {
    readRegistration(text);
  } catch (error) {
    throw new StartProblem((error as Error).message);
  }
  return text;
}

function passedOn(environment: NodeJS.ProcessEnv, folder: string, url: string): Record<string, string> {
  try {
    openedServices(environment[SHARED_SERVICES_SETTING]);
    readAllowedHosts(environment[ALLOWED_HOSTS_SETTING]);
    readOrigins(environment[CORS_ORIGINS_SETTING]);
    checkPlatformHost({ publicUrl: url, projectsDomain: readProjectsDomain(environment[PROJECTS_DOMAIN_SETTING]) });
    readTrustedProxies(environment[TRUSTED_PROXIES_SETTING]);
  } catch (error) {
    throw new StartProblem((error as Error).message);
  }
  for (const name of ['SLIPWAY_RATE_LIMIT', API_RATE_LIMIT_SETTING]) {
    if (environment[name]) checkRateLimit(name, environment[name]);
  }
  if (environment.SLIPWAY_STORAGE_DIR) checkStorageFolder(environment.SLIPWAY_STORAGE_DIR);
  if (environment.SLIPWAY_STORAGE_S3) checkStorageFile(environment.SLIPWAY_STORAGE_S3, folder);
  if (environment[REGISTRATION_SETTING]?.includes('@') && !environment.SLIPWAY_SMTP_URL) {
    throw new StartProblem(
      `${REGISTRATION_SETTING} names mail domains: set SLIPWAY_SMTP_URL too, as codes are mailed to the addresses`,
    );
  }
  if (environment.SLIPWAY_SMTP_URL) checkSmtp(environment.SLIPWAY_SMTP_URL, environment.SLIPWAY_SMTP_FROM, folder);
  return Object.fromEntries(PASSED_ON.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])));
}

function checkRateLimit(name: string, text: string): void {
  if (!/^\d{1,9}$/.test(text))
    throw new StartProblem(`${name} is "${text}": it must be a whole number, such as 1000, or 0 for no limit`);
}

function checkStorageFolder(text: string): void {
  if (!path.isAbsolute(text)) throw new StartProblem(`SLIPWAY_STORAGE_DIR is "${text}": it must be an absolute path`);
}

/** Nothing of what the file holds is said: it has the bucket's keys. */
function checkStorageFile(text: string, folder: string): void {
  try {
    JSON.parse(readFileSync(path.resolve(folder, text), 'utf8'));
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? 'it holds no JSON';
    throw new StartProblem(`SLIPWAY_STORAGE_S3 is "${text}": it must be a readable JSON file (${why})`);
  }
}

/** The file's content is not quoted: it has a password. */
function checkSmtp(text: string, from: string | undefined, folder: string): void {
  let url = '';
  try {
    url = readFileSync(path.resolve(folder, text), 'utf8').trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartProblem(`SLIPWAY_SMTP_URL is "${text}": it must be a readable file (${code})`);
  }
  if (!URL.canParse(url) || !/^smtps?:\/\//.test(url))
    throw new StartProblem(`SLIPWAY_SMTP_URL is "${text}": it must be a file that holds a URL, smtp://… or smtps://…`);
  if (!from?.includes('@'))
    throw new StartProblem(`SLIPWAY_SMTP_FROM is "${from ?? ''}": it must be the address that mails come from`);
}

function portNumber(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  // Two more follow it.
  if (port < 1 || port > 65533)
    throw new StartProblem(`SLIPWAY_PORT is "${text}": it must be a number from 1 to 65533`);
  return port;
}

function ipAddress(variable: string, text: string): string {
  if (text === 'localhost') return '127.0.0.1';
  if (!isIP(text)) throw new StartProblem(`${variable} is "${text}": it must be an IP address, such as 0.0.0.0`);
  return text;
}

function publicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || url.search || url.hash || url.username) {
    throw new StartProblem(
      `SLIPWAY_PUBLIC_URL is "${text}": it must be without a path, such as https://backend.example.com`,
    );
  }
  return url.href.replace(/\/+$/, '');
}

function logLevel(text: string): string {
  if (!LOG_LEVELS.includes(text))
    throw new StartProblem(`SLIPWAY_LOG_LEVEL is "${text}": it must be one of ${LOG_LEVELS.join(', ')}`);
  return text;
}
