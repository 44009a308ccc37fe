/**
 * Which account of the system a project's functions run as. Started by root, each project has a user id of its own that
 * no account has, so that neither files nor processes of anyone else are open to it, whatever Deno would let through.
 * Started by anyone else there is one account, and Deno's permissions are the wall.
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
/**
 * `nobody`, where the system has not given us enough user ids, as in most containers without a user namespace's full
 * map.
 */
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

/** `setpriv`'s words for it. */
export const identityOf = ({ uid, gid }: Account): string[] => [
  '--reuid',
  String(uid),
  '--regid',
  String(gid),
  '--clear-groups',
];

/** Returns the prefix that runs a command as `account`; empty without an account. */
export const asAccount = (account: Account | undefined): string[] =>
  account ? ['setpriv', ...identityOf(account), '--'] : [];

/** Whether every folder above `target` lets everyone pass. */
export function isReachable(target: string): boolean {
  for (let folder = path.dirname(path.resolve(target)); ; folder = path.dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === path.dirname(folder)) return true;
  }
}

/** The program named `name` on the PATH that a system has by default. */
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
