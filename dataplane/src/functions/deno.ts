/**
 * How Deno is called: where its program is, and what an isolate may do. In: folders. Out: its process. The whole list
 * of what a function is allowed stands here.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { NOT_PUBLIC } from '@slipway/crds';
import { type Account, isReachable, isRoot } from './account.js';
import { confined } from './confinement.js';
import type { Launched, Launcher } from './launcher/launcher.js';
import { RESERVED_VARIABLES } from './reserved-environment.js';

/** Where accounts that may not enter the platform's own folders find what they run. */
const SHARED_HOME = '/var/lib/slipway';

export interface Deno {
  program: string;
  launcher: Launcher;
}

/** The binary that npm installed for this machine; a copy of it where it can't be reached by other accounts. */
export function installedDeno(): string {
  const name = `@deno/${process.platform}-${process.arch}${process.platform === 'linux' ? '-glibc' : ''}`;
  let manifest: string;
  try {
    manifest = fileURLToPath(import.meta.resolve(`${name}/package.json`));
  } catch {
    throw new Error(`there is no Deno for ${process.platform} on ${process.arch} (${name} is not installed)`);
  }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  const program = path.join(path.dirname(manifest), 'deno');
  // npm keeps no executable bit for a file that isn't a `bin`.
  if ((statSync(program).mode & 0o111) !== 0o111) chmodSync(program, 0o755);
  return isRoot() && !isReachable(program) ? reachableCopy(program, version) : program;
}

function reachableCopy(program: string, version: string): string {
  const copy = path.join(SHARED_HOME, `deno-${version}`);
  if (existsSync(copy)) return copy;
  mkdirSync(SHARED_HOME, { recursive: true });
  chmodSync(SHARED_HOME, 0o755);
  const unfinished = `${copy}.${process.pid}`;
  copyFileSync(program, unfinished);
  chmodSync(unfinished, 0o755);
  renameSync(unfinished, copy);
  return copy;
}

/** `folder`, or one that other accounts can reach where they can't reach it. */
export function reachableFolder(folder: string, name: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  if (!isRoot() || isReachable(path.join(folder, 'x'))) return folder;
  const elsewhere = path.join(SHARED_HOME, name);
  mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
  chmodSync(SHARED_HOME, 0o755);
  return elsewhere;
}

/** Deno takes no ranges of IPv6: the addresses of every host and the known ones of metadata services, one by one. */
const DENIED_IPV6 = ['[::]', '[::1]', '[fd00:ec2::254]', '[fe80::a9fe:a9fe]'];

/** Returns the addresses that Deno can deny. It takes no range of IPv6: those are left to network policies. */
function denied(range: string): string[] {
  if (!range.includes(':')) return [range];
  return range.endsWith('/128') ? [`[${range.slice(0, -'/128'.length)}]`] : [];
}

export interface IsolateFolders {
  /** The function's own source. */
  source: string;
  /** Deno's cache of what the project's functions import. */
  cache: string;
  /** The Unix socket that the isolate answers at. */
  socket: string;
  /** The Unix socket where it, and no other isolate, reaches the public URL. */
  gateway: string;
}

export interface IsolateBounds {
  heapMegabytes: number;
  /** Addresses and IPv4 ranges beyond those that are private. */
  blockedAddresses: readonly string[];
  /** Addresses of this machine, in the form of `--deny-net`. */
  ownAddresses: readonly string[];
}

export function isolateArguments(
  bootstrap: string,
  folders: IsolateFolders,
  { heapMegabytes, blockedAddresses, ownAddresses }: IsolateBounds,
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
    // Deno compares addresses after it has resolved a name, so neither DNS nor a redirect leads around these.
    `--deny-net=${[...NOT_PUBLIC, ...DENIED_IPV6, ...ownAddresses, ...blockedAddresses.flatMap(denied)].join(',')}`,
    // All of its environment, as it is made for this process alone: packages look for names that are not there.
    '--allow-env',
    // Not `--deny-env`: a package that looks for a proxy finds none, and does not fail.
    `--ignore-env=${RESERVED_VARIABLES.join(',')}`,
    `--allow-read=${[source, path.join(cache, 'npm'), socket, gateway].join(',')}`,
    `--allow-write=${socket},${gateway}`,
    '--deny-run',
    '--deny-ffi',
    '--deny-sys',
    bootstrap,
  ];
}

/** No file beside the source, and none above it, changes how it runs. */
export const OWN_CONFIGURATION_ONLY = ['--no-config', '--no-lock', '--node-modules-dir=none'];

export interface DenoRun {
  cwd: string;
  cache: string;
  account: Account | undefined;
  /** Paths that the process reads besides the project's folder. Used by the sandbox. */
  readable?: readonly string[];
  /** Paths that the process writes besides the project's cache. */
  writable?: readonly string[];
  /** For its standard input, which then stays open. */
  input?: string;
}

export function startDeno({ program, launcher }: Deno, args: string[], run: DenoRun): Launched {
  const { cwd, cache, account, readable = [], writable = [], input } = run;
  const files = { readable: [program, path.dirname(cache), ...readable], writable: [cache, ...writable] };
  return launcher.start({
    ...confined([program, ...args], { cwd, account, files }),
    cwd,
    env: denoEnvironment(cache),
    ...(input !== undefined && { input }),
  });
}

/** For Deno itself. HOME is a folder that is not there: nothing of any account's settings is read. */
const denoEnvironment = (cache: string): Record<string, string> => ({
  DENO_DIR: cache,
  DENO_NO_UPDATE_CHECK: '1',
  DENO_NO_PROMPT: '1',
  NO_COLOR: '1',
  // A registry behind an authority of the machine's own is reached as by everyone else on it.
  DENO_TLS_CA_STORE: 'mozilla,system',
  HOME: '/nonexistent',
  PATH: '/usr/bin:/bin',
});
