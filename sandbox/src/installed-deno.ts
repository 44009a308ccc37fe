/** Finds the Deno that npm installed. Out: a path at which other accounts can run it. */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isReachable, isRoot } from './account.js';

/** Folder for copies, if accounts can't enter the platform's own folders. */
export const SHARED_HOME = '/var/lib/slipway';

/** Returns the binary that npm installed for this machine, or a copy of it if other accounts can't reach it. */
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
  // npm does not keep the executable bit of a file that isn't a `bin`.
  if ((statSync(program).mode & 0o111) !== 0o111) chmodSync(program, 0o755);
  return isRoot() && !isReachable(program) ? reachableCopy(program, version) : program;
}

function reachableCopy(program: string, version: string): string {
  const copy = path.join(SHARED_HOME, `deno-${version}`);
  if (existsSync(copy)) return copy;
  mkdirSync(SHARED_HOME, { recursive: true });
  chmodSync(SHARED_HOME, 0o755);
  // Random instead of the process id, which may be equal in containers that share the folder.
  const unfinished = `${copy}.${randomBytes(6).toString('hex')}.unfinished`;
  copyFileSync(program, unfinished);
  chmodSync(unfinished, 0o755);
  syncToDisk(unfinished);
  renameSync(unfinished, copy);
  syncToDisk(SHARED_HOME);
  return copy;
}

/** Flushed first, so that after a power loss the copy's name never exists without its content. */
function syncToDisk(target: string): void {
  const opened = openSync(target, 'r');
  fsyncSync(opened);
  closeSync(opened);
}
