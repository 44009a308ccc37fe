/**
 * Chooses the system account of a project's code. If root runs the platform, each project has its own user id, which no
 * account has, so that files and processes of others are inaccessible. Otherwise all projects share one account.
 */
import { createHash } from 'node:crypto';
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

export interface Account {
  uid: number;
  gid: number;
}

const FIRST_ID = 0x4000_0000;
const IDS = 0x3fff_ffff;
/** `nobody`, if the system has too few user ids, as in most containers without a full map of the user namespace. */
const NOBODY = 65_534;

export const isRoot = () => process.getuid?.() === 0;

export function accountOf(ref: string): Account | undefined {
  if (!isRoot()) return undefined;
  const id = hasManyIds() ? FIRST_ID + (createHash('sha256').update(ref).digest().readUInt32BE() % IDS) : NOBODY;
  return { uid: id, gid: id };
}

export function hasManyIds(): boolean {
  try {
    const [inside = 0, , count = 0] = readFileSync('/proc/self/uid_map', 'utf8').trim().split(/\s+/).map(Number);
    return inside === 0 && count > FIRST_ID + IDS;
  } catch {
    return true;
  }
}

/** Arguments of `setpriv` for the account. */
export const identityOf = ({ uid, gid }: Account): string[] => [
  '--reuid',
  String(uid),
  '--regid',
  String(gid),
  '--clear-groups',
];

/** Returns the command prefix that changes to `account`; empty without an account. */
export const asAccount = (account: Account | undefined): string[] =>
  account ? ['setpriv', ...identityOf(account), '--'] : [];

/** True if every account may enter every folder above `target`. */
export function isReachable(target: string): boolean {
  for (let folder = path.dirname(path.resolve(target)); ; folder = path.dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === path.dirname(folder)) return true;
  }
}

/** Returns the path of the program `name` on the system's default PATH. */
export function systemProgram(name: string): string | undefined {
  return ['/usr/bin', '/bin', '/usr/sbin', '/usr/local/bin']
    .map((folder) => path.join(folder, name))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
