/**
 * The settings of the person who starts the platform. `main.ts` reads them once from the environment, and this module
 * checks them. Everything else is derived from them.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import path from 'node:path';
import {
  ALLOWED_HOSTS_SETTING,
  API_RATE_LIMIT_SETTING,
  BUILDS_AT_ONCE_SETTING,
  CORS_ORIGINS_SETTING,
  checkPlatformHost,
  MACHINE_LABEL_SETTING,
  MACHINE_MOST_SETTING,
  MACHINE_ORPHANS_SETTING,
  MACHINE_SNAPSHOT_SETTING,
  MACHINE_TOKEN_SETTING,
  MACHINE_URL_SETTING,
  openedServices,
  PROJECTS_DOMAIN_SETTING,
  REGISTRATION_SETTING,
  readAllowedHosts,
  readBuildsAtOnce,
  readMachineLabel,
  readMachineMost,
  readMachineOrphans,
  readMachineSnapshot,
  readMachineUrl,
  readOrigins,
  readProjectsDomain,
  readRegistration,
  readTrustedProxies,
  SHARED_SERVICES_SETTING,
  TRUSTED_PROXIES_SETTING,
} from '@slipway/installation';
import { ALLOWED_NETWORKS_SETTING, isLoopback, LOG_LEVELS, logLevelOf, readNetworks } from '@slipway/program';
import { CA_FILE_SETTING, readAuthorities } from './authorities.js';
import { StartProblem } from './problem.js';
import { readTlsSettings, type TlsSettings } from './tls-settings.js';

export interface Settings {
  /** The folder with all data, secrets and logs. */
  home: string;
  /** The address where people reach the platform. */
  host: string;
  /** The addresses of the Kubernetes API and of Postgres. Default: loopback, even if people's address is not. */
  kubernetesHost: string;
  postgresHost: string;
  ports: { people: number; kubernetes: number; postgres: number };
  /** Undefined: the platform serves plain HTTP alone, on this machine or behind a proxy. */
  tls: TlsSettings | undefined;
  /** The URL that people type, without a trailing slash. */
  publicUrl: string;
  /** True while only this machine can reach the platform. Only then registration is open by default. */
  localOnly: boolean;
  /** The registration policy, in the syntax of SLIPWAY_REGISTRATION. */
  registration: string;
  /** Variables that are passed on unchanged to the programs that read them. */
  passedOn: Readonly<Record<string, string>>;
  /** The file of certificate authorities that are trusted besides the system's. */
  authorities: string | undefined;
  logLevel: string;
}

/**
 * Settings that the programs check too. They are checked here already, so that a wrong value is reported at once,
 * instead of by a program that ends again and again.
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
  ALLOWED_NETWORKS_SETTING,
  BUILDS_AT_ONCE_SETTING,
  MACHINE_URL_SETTING,
  MACHINE_LABEL_SETTING,
  MACHINE_SNAPSHOT_SETTING,
  MACHINE_MOST_SETTING,
  MACHINE_ORPHANS_SETTING,
];

/** Describes each setting for `--help`. */
export const SETTINGS_HELP = `
  SLIPWAY_HOME        the folder of data, secrets and logs               (.slipway)
  SLIPWAY_PORT        the port for people; the next two are those of
                      the Kubernetes API and of Postgres                 (4000)
  SLIPWAY_HOST        the IP address of the port for people; 0.0.0.0
                      for all                                            (127.0.0.1)
  SLIPWAY_KUBERNETES_HOST
                      the IP address of the Kubernetes API               (127.0.0.1)
  SLIPWAY_POSTGRES_HOST
                      the IP address of Postgres, for db_url             (127.0.0.1)
  SLIPWAY_PUBLIC_URL  the URL of the platform for people                 (http://localhost:4000)
  SLIPWAY_HTTPS_PORT  the HTTPS port for everybody, or address:port      (none)
  SLIPWAY_HTTP_PORT   the HTTP port beside it, or address:port, for the
                      certificate authority's requests. All others are
                      redirected. From outside it is port 80             (none)
  SLIPWAY_CERTIFICATE a file (PEM) with a certificate for all hosts,
                      instead of certificates from an authority          (none)
  SLIPWAY_CERTIFICATE_KEY
                      a file (PEM) with its key                          (none)
  SLIPWAY_ACME_DIRECTORY
                      the certificate authority. SLIPWAY_HTTPS_PORT
                      accepts its terms of service                       (Let's Encrypt)
  SLIPWAY_ACME_EMAIL  an address for the authority's notices             (none)
  SLIPWAY_ACME_CERTIFICATES
                      a file of certificate authorities (PEM) that
                      connections to the authority trust                 (none)
  SLIPWAY_REGISTRATION
                      who may register an account: open, invite, closed,
                      or mail domains such as @example.com               (open while only this machine
                                                                          can connect, else invite)
  SLIPWAY_PROJECTS_DOMAIN
                      the domain of projects' host names,
                      <ref>.<domain>                                     (paths of the public URL)
  SLIPWAY_ALLOWED_HOSTS
                      more host names of the platform, besides localhost,
                      IP addresses, this machine's name, and those of
                      the public URL and of projects                     (none)
  SLIPWAY_CORS_ORIGINS
                      more origins whose pages may call the management
                      API                                                (none)
  SLIPWAY_TRUSTED_PROXIES
                      addresses or networks of reverse proxies whose
                      X-Forwarded-For is trusted                         (none)
  SLIPWAY_SERVICES_SHARED
                      more services of shared projects, besides those of
                      the availability matrix: storage,functions, all,
                      or none. Later starts keep the choice              (none)
  SLIPWAY_RATE_LIMIT  requests a second from one address to one project;
                      0 for no limit. The default does not limit this
                      machine's own addresses                            (1000)
  SLIPWAY_API_RATE_LIMIT
                      requests a minute of one account to the management
                      API. Costly ones count more; 0 for no limit. The
                      default does not limit this machine's own          (1200)
  SLIPWAY_STORAGE_DIR the folder of the storage service's files          (<home>/storage)
  SLIPWAY_STORAGE_S3  a JSON file that names the S3 bucket of the files,
                      if these are not in that folder                    (none)
  SLIPWAY_SMTP_URL    a file with the URL of the SMTP server for mails to
                      accounts, smtp://user:password@host:587            (no mail)
  SLIPWAY_SMTP_FROM   the sender's address of these mails                (none)
  SLIPWAY_ALLOWED_NETWORKS
                      networks outside of the internet that tenants may
                      connect to: hosts of Git, mail, hooks and identity
                      providers, builds, functions. 10.1.0.0/16          (none)
  SLIPWAY_BUILDS_AT_ONCE
                      builds of sites that run at the same time, each
                      with 1 GiB of memory or more                       (2)
  SLIPWAY_HCLOUD_TOKEN_FILE
                      a file with an API token of Hetzner Cloud, where
                      dedicated projects get machines                    (none: no dedicated projects)
  SLIPWAY_HCLOUD_URL  the address of its API                             (the provider's)
  SLIPWAY_HCLOUD_LABEL
                      the name of this installation at the provider      (random, once)
  SLIPWAY_HCLOUD_SNAPSHOT
                      off: new machines install the software, instead of
                      booting from a snapshot that has it                (on)
  SLIPWAY_HCLOUD_MAX_MACHINES
                      the most machines of dedicated projects            (20)
  SLIPWAY_HCLOUD_ORPHANS
                      keep or delete: machines at the provider with this
                      installation's name that belong to no project      (keep)
  SLIPWAY_CA_FILE     a file of certificate authorities (PEM) that the
                      platform, builds and functions trust besides the
                      system's                                           (none)
  SLIPWAY_LOG_LEVEL   ${LOG_LEVELS.join(', ').padEnd(51)}(info)
`;

export function readSettings(environment: NodeJS.ProcessEnv, folder: string): Settings {
  const home = homeOf(environment, folder);
  const port = portNumber(environment.SLIPWAY_PORT || '4000');
  const host = ipAddress('SLIPWAY_HOST', environment.SLIPWAY_HOST || '127.0.0.1');
  // These two ports are for administrators. The setting that opens the port for people does not open them.
  const closed = isLoopback(host) ? host : '127.0.0.1';
  const kubernetesHost = ipAddress('SLIPWAY_KUBERNETES_HOST', environment.SLIPWAY_KUBERNETES_HOST || closed);
  const postgresHost = ipAddress('SLIPWAY_POSTGRES_HOST', environment.SLIPWAY_POSTGRES_HOST || closed);
  const url = publicUrl(
    environment.SLIPWAY_PUBLIC_URL || `http://${isLoopback(host) ? 'localhost' : inUrl(reachableAt(host))}:${port}`,
  );
  const tls = readTlsSettings(environment, { folder, publicUrl: url });
  const localOnly =
    tls === undefined &&
    [host, kubernetesHost, postgresHost].every(isLoopback) &&
    isLoopbackUrl(url) &&
    !isFronted(environment);
  return {
    home,
    host,
    kubernetesHost,
    postgresHost,
    ports: { people: port, kubernetes: port + 1, postgres: port + 2 },
    tls,
    publicUrl: url,
    localOnly,
    registration: registration(environment[REGISTRATION_SETTING] || (localOnly ? 'open' : 'invite')),
    passedOn: passedOn(environment, folder, url),
    authorities: authorities(environment, folder),
    logLevel: logLevel(environment),
  };
}

/** Matches variables of tests, and the one that the script of `npm start` sets. */
const INTERNAL = /^SLIPWAY_(PREPARED_MS|HANG_RECORD|OUTLIVES_TEST|TEST_|E2E_)/;

/** Returns the variables that look like a setting and are none, such as a misspelt one. */
export function unknownSettings(environment: NodeJS.ProcessEnv): string[] {
  const known = new Set(SETTINGS_HELP.match(/SLIPWAY_\w+/g));
  const own = Object.keys(environment).filter((name) => name.startsWith('SLIPWAY_'));
  return own.filter((name) => !known.has(name) && !INTERNAL.test(name));
}

/** Reads only the home, which is all that stopping needs: another setting may be wrong without preventing a stop. */
export const homeOf = (environment: NodeJS.ProcessEnv, folder: string) =>
  path.resolve(folder, environment.SLIPWAY_HOME || '.slipway');

/** Returns an address that connects, from this machine, to a program that listens at `host`. */
export function reachableAt(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

export const inUrl = (host: string) => (isIP(host) === 6 ? `[${host}]` : host);

/** True if a proxy may forward requests from other machines to loopback. */
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
    readNetworks(environment[ALLOWED_NETWORKS_SETTING]);
    readBuildsAtOnce(environment[BUILDS_AT_ONCE_SETTING]);
    readMachineUrl(environment[MACHINE_URL_SETTING]);
    readMachineLabel(environment[MACHINE_LABEL_SETTING]);
    readMachineSnapshot(environment[MACHINE_SNAPSHOT_SETTING]);
    readMachineMost(environment[MACHINE_MOST_SETTING]);
    readMachineOrphans(environment[MACHINE_ORPHANS_SETTING]);
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
  const own = PASSED_ON.flatMap((name) => (environment[name] ? [[name, environment[name]]] : []));
  const tokenFile = environment[MACHINE_TOKEN_SETTING];
  if (!tokenFile) return Object.fromEntries(own);
  return { ...Object.fromEntries(own), [MACHINE_TOKEN_SETTING]: checkedTokenFile(path.resolve(folder, tokenFile)) };
}

/** The error does not quote the file, because it contains a token. */
function checkedTokenFile(file: string): string {
  let token = '';
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartProblem(`${MACHINE_TOKEN_SETTING} is "${file}": it must be a readable file (${code})`);
  }
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new StartProblem(`${MACHINE_TOKEN_SETTING} is "${file}": it must be a file that holds an API token alone`);
  return file;
}

function authorities(environment: NodeJS.ProcessEnv, folder: string): string | undefined {
  const text = environment[CA_FILE_SETTING];
  if (!text) return undefined;
  const file = path.resolve(folder, text);
  readAuthorities(file);
  return file;
}

function checkRateLimit(name: string, text: string): void {
  if (!/^\d{1,9}$/.test(text))
    throw new StartProblem(`${name} is "${text}": it must be a whole number, such as 1000, or 0 for no limit`);
}

function checkStorageFolder(text: string): void {
  if (!path.isAbsolute(text)) throw new StartProblem(`SLIPWAY_STORAGE_DIR is "${text}": it must be an absolute path`);
}

/** The error does not quote the file, because it contains the bucket's keys. */
function checkStorageFile(text: string, folder: string): void {
  try {
    JSON.parse(readFileSync(path.resolve(folder, text), 'utf8'));
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? 'it holds no JSON';
    throw new StartProblem(`SLIPWAY_STORAGE_S3 is "${text}": it must be a readable JSON file (${why})`);
  }
}

/** The error does not quote the file, because it contains a password. */
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
  // The next two ports are used too.
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

function logLevel(environment: NodeJS.ProcessEnv): string {
  try {
    return logLevelOf(environment);
  } catch (error) {
    throw new StartProblem((error as Error).message);
  }
}
