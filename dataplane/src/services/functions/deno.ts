/**
 * Starts Deno with the permissions of an isolate. In: folders. Out: its process. This file has the whole list of what a
 * function is allowed.
 */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import {
  type Account,
  confined,
  isReachable,
  isRoot,
  type Launched,
  type Launcher,
  SHARED_HOME,
} from '@slipway/sandbox';
import { RESERVED_VARIABLES } from './reserved-environment.js';

export interface Deno {
  program: string;
  launcher: Launcher;
  /** File (PEM) of further certificate authorities, readable for every account. */
  authorities?: string | undefined;
}

/**
 * Returns `folder` if other accounts can reach it. Otherwise replaces it by a link to a folder in `shared`, and returns
 * that. The file `<folder>.home` beside it has the link's path, by which `npm run uninstall` finds both.
 */
export function reachableFolder(folder: string, name: string, shared = SHARED_HOME): string {
  const link = lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() ? readlinkSync(folder) : undefined;
  if (link === undefined || path.dirname(link) !== shared) {
    mkdirSync(folder, { recursive: true, mode: 0o711 });
    if (!isRoot() || isReachable(path.join(folder, 'x'))) return folder;
  }
  mkdirSync(shared, { recursive: true });
  chmodSync(shared, 0o755);
  const elsewhere = claimed(link ?? path.join(shared, name), path.resolve(folder));
  mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
  if (elsewhere !== link) {
    // The folder was unused, because other accounts could not reach it.
    rmSync(folder, { recursive: true, force: true });
    symlinkSync(elsewhere, folder);
  }
  return elsewhere;
}

/** Returns `wanted`, or a unique name if another home uses it: several homes may be named `.slipway`. */
function claimed(wanted: string, link: string): string {
  const record = `${wanted}.home`;
  try {
    writeFileSync(record, link, { flag: 'wx', mode: 0o600 });
    return wanted;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  if (readFileSync(record, 'utf8') === link) return wanted;
  return claimed(`${wanted}-${randomBytes(6).toString('hex')}`, link);
}

/**
 * Single addresses of IPv6 that are denied, because Deno accepts no ranges: each host's own addresses, and known
 * metadata services.
 */
const DENIED_IPV6 = ['[::]', '[::1]', '[fd00:ec2::254]', '[fe80::a9fe:a9fe]'];

/** Returns the addresses that Deno can deny. Network policies deny ranges of IPv6. */
function denied(range: string): string[] {
  if (!range.includes(':')) return [range];
  return range.endsWith('/128') ? [`[${range.slice(0, -'/128'.length)}]`] : [];
}

export interface IsolateFolders {
  /** Folder of the function's source. */
  source: string;
  /** Deno's cache of the project's imports. */
  cache: string;
  /** Unix socket at which the isolate serves. */
  socket: string;
  /** Unix socket through which only this isolate reaches the public URL. */
  gateway: string;
}

export interface IsolateBounds {
  heapMegabytes: number;
  /** Networks (CIDRs) to deny. Those of IPv6 count only if they are single addresses. */
  deniedNetworks: readonly string[];
  /** Addresses of this machine, in the form of `--deny-net`. */
  ownAddresses: readonly string[];
}

export function isolateArguments(
  bootstrap: string,
  folders: IsolateFolders,
  { heapMegabytes, deniedNetworks, ownAddresses }: IsolateBounds,
): string[] {
  const { source, cache, socket, gateway } = folders;
  return [
    'run',
    '--quiet',
    '--no-prompt',
    ...OWN_CONFIGURATION_ONLY,
    '--cached-only',
    `--v8-flags=--max-old-space-size=${heapMegabytes}`,
    '--allow-net',
    // Deno compares addresses after it has resolved a name, so neither DNS nor a redirect bypasses these.
    `--deny-net=${[...deniedNetworks.flatMap(denied), ...DENIED_IPV6, ...ownAddresses].join(',')}`,
    // Allows the whole environment, which is made for this process: packages probe variables that do not exist.
    '--allow-env',
    // Not `--deny-env`, which would make packages fail that look for a proxy.
    `--ignore-env=${RESERVED_VARIABLES.join(',')}`,
    `--allow-read=${[source, path.join(cache, 'npm'), socket, gateway].join(',')}`,
    `--allow-write=${socket},${gateway}`,
    '--deny-run',
    '--deny-ffi',
    '--deny-sys',
    bootstrap,
  ];
}

/** Options of Deno with which no configuration file beside or above the source has an effect. */
export const OWN_CONFIGURATION_ONLY = ['--no-config', '--no-lock', '--node-modules-dir=none'];

export interface DenoRun {
  cwd: string;
  cache: string;
  account: Account | undefined;
  /** Paths that the process may read besides the project's folder, for the sandbox. */
  readable?: readonly string[];
  /** Paths that the process may write besides the project's cache. */
  writable?: readonly string[];
  /** Text for standard input, which then stays open. */
  input?: string;
}

export function startDeno({ program, launcher, authorities }: Deno, args: string[], run: DenoRun): Launched {
  const { cwd, cache, account, readable = [], writable = [], input } = run;
  const files = {
    readable: [program, path.dirname(cache), ...(authorities ? [authorities] : []), ...readable],
    writable: [cache, ...writable],
  };
  return launcher.start({
    ...confined([program, ...args], { cwd, account, files }),
    cwd,
    env: { ...denoEnvironment(cache), ...(authorities && { DENO_CERT: authorities }) },
    ...(input !== undefined && { input }),
  });
}

/** Environment of Deno itself. HOME does not exist, so that no account's settings are read. */
const denoEnvironment = (cache: string): Record<string, string> => ({
  DENO_DIR: cache,
  DENO_NO_UPDATE_CHECK: '1',
  DENO_NO_PROMPT: '1',
  NO_COLOR: '1',
  // A registry with a certificate of the machine's own authority is accepted, as by other programs.
  DENO_TLS_CA_STORE: 'mozilla,system',
  HOME: '/nonexistent',
  // IPv6 sockets are denied, so names resolve to IPv4 addresses only.
  RES_OPTIONS: 'no-aaaa',
  PATH: '/usr/bin:/bin',
});
