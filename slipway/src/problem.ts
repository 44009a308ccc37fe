import { realpathSync } from 'node:fs';
import path from 'node:path';

/** A problem that the person who started Slipway can fix. It is printed as one line that names the fix. */
export class StartProblem extends Error {}

/** Error messages with fixes for error codes at a path in SLIPWAY_HOME. */
const HOME_REASONS: Record<string, (where: string) => string> = {
  ENOSPC: (where) => `the disk is full at ${where}: free some space, or set SLIPWAY_HOME to a folder on another disk`,
  EDQUOT: (where) =>
    `the disk quota is used up at ${where}: free some space, or set SLIPWAY_HOME to a folder elsewhere`,
  EACCES: (where) => `may not write at ${where}: set SLIPWAY_HOME to a folder of yours`,
  EPERM: (where) => `may not write at ${where}: set SLIPWAY_HOME to a folder of yours`,
  EROFS: (where) => `the file system is read-only at ${where}: set SLIPWAY_HOME to a folder that can be written`,
  ENOENT: (where) => `there can be no folder at ${where}: set SLIPWAY_HOME to a folder of yours`,
  ENOTDIR: (where) => `there is a file where a folder should be at ${where}: set SLIPWAY_HOME to another folder`,
  EEXIST: (where) => `there is a file where a folder should be at ${where}: set SLIPWAY_HOME to another folder`,
};

/** Error messages for any other path, where another SLIPWAY_HOME would not help. */
const OTHER_REASONS: Record<string, (where: string) => string> = {
  ENOSPC: (where) => `the disk is full${where}: free some space`,
  EDQUOT: (where) => `the disk quota is used up${where}: free some space`,
};

/** Error codes that concern a folder only if a folder was to be created. Otherwise just a file may be missing. */
const OF_FOLDERS = ['ENOENT', 'EEXIST'];

type SystemError = NodeJS.ErrnoException & { dest?: string };

/** Returns the error in one line. Its fix names SLIPWAY_HOME only if the error is about a path in `home`. */
export function inOneLine(error: unknown, home?: string): string {
  const text = error instanceof StartProblem ? error.message : reasonOf(error as SystemError, home);
  return text.split('\n').filter(Boolean).join('; ');
}

function reasonOf(error: SystemError, home: string | undefined): string {
  const text = String(error?.message ?? error);
  const { code = '', path: from, dest, syscall } = error ?? {};
  const inHome = home && [dest, from].find((each) => each !== undefined && isWithin(each, home));
  const applies = syscall === 'mkdir' || !OF_FOLDERS.includes(code);
  if (inHome && applies && HOME_REASONS[code]) return HOME_REASONS[code](inHome);
  if (OTHER_REASONS[code]) return OTHER_REASONS[code](from ? ` at ${dest ?? from}` : '');
  // initdb and Postgres report a full disk in text, without a code.
  if (/No space left on device/.test(text)) return `${OTHER_REASONS.ENOSPC?.('')} (${text})`;
  return text;
}

/** True if `target` is `home` (by its name or its real path), is in it, or is a folder above it. */
function isWithin(target: string, home: string): boolean {
  const inner = path.resolve(target);
  return [path.resolve(home), realPathOf(home)].some(
    (outer) => inner === outer || inner.startsWith(`${outer}${path.sep}`) || outer.startsWith(`${inner}${path.sep}`),
  );
}

function realPathOf(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return path.resolve(folder);
  }
}
