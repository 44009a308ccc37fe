/** What a person may set, read once from the environment by `main.ts` and checked here; everything else follows from it. */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import path from 'node:path';
import { openedServices, SHARED_SERVICES_SETTING } from '@slipway/crds';
import { StartProblem } from './problem.js';

export interface Settings {
  /** Where all data, secrets and logs are. */
  home: string;
  /** The address that is listened at. */
  host: string;
  ports: { people: number; kubernetes: number; postgres: number };
  /** What people type, without a slash at the end. */
  publicUrl: string;
  /** As they were set, for the programs that read them. */
  passedOn: Readonly<Record<string, string>>;
  logLevel: string;
}

/** The programs that read them check them too; here a wrong one is said at once, before a program ends over it again and again. */
const PASSED_ON = [SHARED_SERVICES_SETTING, 'SLIPWAY_RATE_LIMIT', 'SLIPWAY_STORAGE_DIR', 'SLIPWAY_STORAGE_S3'];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Each setting, for `--help`. */
export const SETTINGS_HELP = `
  SLIPWAY_HOME        where data, secrets and logs are kept              (.slipway)
  SLIPWAY_PORT        the port for people; the next two are those of
                      the Kubernetes API and of Postgres                 (4000)
  SLIPWAY_HOST        the IP address to listen at; 0.0.0.0 for all       (127.0.0.1)
  SLIPWAY_PUBLIC_URL  what people type to get here                       (http://localhost:4000)
  SLIPWAY_SERVICES_SHARED
                      services that shared projects have beyond the
                      availability matrix, such as storage,functions     (none)
  SLIPWAY_RATE_LIMIT  requests a second of one address to one project;
                      0 for no limit (without it this machine's own
                      addresses have none)                               (1000)
  SLIPWAY_STORAGE_DIR the folder of the storage service's files          (<home>/storage)
  SLIPWAY_STORAGE_S3  a JSON file that names the S3 bucket of the files,
                      if they aren't in that folder                      (none)
  SLIPWAY_LOG_LEVEL   ${LOG_LEVELS.join(', ')}  (info)
`;

export function readSettings(environment: NodeJS.ProcessEnv, folder: string): Settings {
  const home = homeOf(environment, folder);
  const port = portNumber(environment.SLIPWAY_PORT || '4000');
  const host = ipAddress(environment.SLIPWAY_HOST || '127.0.0.1');
  return {
    home,
    host,
    ports: { people: port, kubernetes: port + 1, postgres: port + 2 },
    publicUrl: publicUrl(
      environment.SLIPWAY_PUBLIC_URL || `http://${isLoopback(host) ? 'localhost' : inUrl(reachableAt(host))}:${port}`,
    ),
    passedOn: passedOn(environment, folder),
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
const isLoopback = (host: string) => host.startsWith('127.') || host === '::1';

function passedOn(environment: NodeJS.ProcessEnv, folder: string): Record<string, string> {
  try {
    openedServices(environment[SHARED_SERVICES_SETTING]);
  } catch (error) {
    throw new StartProblem((error as Error).message);
  }
  if (environment.SLIPWAY_RATE_LIMIT) checkRateLimit(environment.SLIPWAY_RATE_LIMIT);
  if (environment.SLIPWAY_STORAGE_DIR) checkStorageFolder(environment.SLIPWAY_STORAGE_DIR);
  if (environment.SLIPWAY_STORAGE_S3) checkStorageFile(environment.SLIPWAY_STORAGE_S3, folder);
  return Object.fromEntries(PASSED_ON.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])));
}

function checkRateLimit(text: string): void {
  if (!/^\d{1,9}$/.test(text))
    throw new StartProblem(
      `SLIPWAY_RATE_LIMIT is "${text}": it must be a whole number, such as 1000, or 0 for no limit`,
    );
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

function portNumber(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  // Two more follow it.
  if (port < 1 || port > 65533)
    throw new StartProblem(`SLIPWAY_PORT is "${text}": it must be a number from 1 to 65533`);
  return port;
}

function ipAddress(text: string): string {
  if (text === 'localhost') return '127.0.0.1';
  if (!isIP(text)) throw new StartProblem(`SLIPWAY_HOST is "${text}": it must be an IP address, such as 0.0.0.0`);
  return text;
}

function publicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username) {
    throw new StartProblem(`SLIPWAY_PUBLIC_URL is "${text}": it must be such as https://backend.example.com`);
  }
  return url.href.replace(/\/+$/, '');
}

function logLevel(text: string): string {
  if (!LOG_LEVELS.includes(text))
    throw new StartProblem(`SLIPWAY_LOG_LEVEL is "${text}": it must be one of ${LOG_LEVELS.join(', ')}`);
  return text;
}
