/**
 * Postgres refuses to run as root. Started by root, it runs as the system account `slipway`, made on first use; and
 * since that account may not enter folders such as /root, its binaries and data then live under /var/lib/slipway
 * instead, with a link where they were asked for. Started by anyone else, none of this applies.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, cp, lstat, mkdir, readFile, realpath, rename, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { syncToDisk } from './sync-to-disk.js';

const run = promisify(execFile);
const ACCOUNT = 'slipway';
const HOME = '/var/lib/slipway';

export interface Account {
  uid: number;
  gid: number;
}

/** The account that Postgres must run as, or undefined where it can be the caller's own. */
export async function postgresAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  return (await lookUp()) ?? (await create());
}

async function lookUp(): Promise<Account | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n');
  const fields = lines.find((line) => line.startsWith(`${ACCOUNT}:`))?.split(':');
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) };
}

async function create(): Promise<Account> {
  const attempts: [string, string[]][] = [
    ['useradd', ['--system', '--user-group', '--home-dir', HOME, '--shell', '/bin/false', ACCOUNT]],
    ['adduser', ['-S', '-D', '-H', '-h', HOME, '-s', '/bin/false', ACCOUNT]],
  ];
  const failures: string[] = [];
  for (const [command, args] of attempts) {
    // Two platforms started at once may both try: whoever lost finds the account there.
    await run(command, args).catch((error: Error) => failures.push(error.message.split('\n').at(-2) ?? error.message));
    const account = await lookUp();
    if (account) return account;
  }
  throw new Error(`Postgres can't run as root, and the account "${ACCOUNT}" could not be made: ${failures.join('; ')}`);
}

/** Whether every folder above `target` lets others in. */
async function isReachable(target: string): Promise<boolean> {
  for (let folder = path.dirname(path.resolve(target)); ; folder = path.dirname(folder)) {
    const found = await stat(folder).catch(() => undefined);
    if (found && (found.mode & 0o001) === 0) return false;
    if (folder === path.dirname(folder)) return true;
  }
}

/** The folder with `bin/postgres` that `account` can run: `native` itself, or a copy of it that stays. */
export async function reachableBinaries(native: string, version: string, account: Account | undefined) {
  const program = path.join(native, 'bin', 'postgres');
  const isRunnable = async () => ((await stat(program)).mode & 0o005) === 0o005 && (await isReachable(program));
  if (!account || (await isRunnable())) return native;
  const copy = path.join(HOME, `postgres-${version}`);
  if (await stat(copy).catch(() => undefined)) return copy;
  const unfinished = `${copy}.${process.pid}`;
  await makeHome();
  try {
    await cp(native, unfinished, { recursive: true, verbatimSymlinks: true });
    await run('chmod', ['-R', 'a+rX', unfinished]);
    await rename(unfinished, copy);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another start may have finished the same copy first.
    if (!(await stat(copy).catch(() => undefined))) throw error;
  }
  return copy;
}

async function makeHome(): Promise<void> {
  await mkdir(HOME, { recursive: true });
  await chmod(HOME, 0o755);
}

/** Makes the data folder, owned by `account`, and returns its real path. */
export async function reachableFolder(folder: string, account: Account | undefined): Promise<string> {
  const existing = await lstat(folder).catch(() => undefined);
  if (existing) {
    const real = await realpath(folder);
    // A start that was killed right after making it left it to root.
    if (account && (await stat(real)).uid === 0) await chown(real, account.uid, account.gid);
    return real;
  }
  if (!account) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }
  await mkdir(path.dirname(folder), { recursive: true });
  const elsewhere = !(await isReachable(folder));
  const real = elsewhere ? path.join(HOME, `data-${randomBytes(6).toString('hex')}`) : folder;
  if (elsewhere) await makeHome();
  await mkdir(real, { mode: 0o700 });
  await chown(real, account.uid, account.gid);
  if (elsewhere) {
    await symlink(real, folder);
    // Without the link, a start after a power cut would make a new data folder.
    await syncToDisk(path.dirname(folder));
  }
  return real;
}

/** Makes the socket folder, which programs of other accounts may enter but not list. */
export async function socketFolder(folder: string, account: Account | undefined): Promise<void> {
  await mkdir(folder, { recursive: true });
  await chmod(folder, account ? 0o711 : 0o700);
  if (account) await chown(folder, account.uid, account.gid);
}
