/**
 * Chooses the account that runs Postgres. Postgres refuses to run as root. If root started Slipway, Postgres runs as
 * the system account `slipway`, which the first start makes. That account can't enter folders such as /root. So its
 * binaries and data are then under /var/lib/slipway, with a link at the requested path. For any other starter, none of
 * this applies.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, lstat, mkdir, readFile, realpath, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { adoptFolder, linkTarget, writeRecord } from './folder-record.js';
import { ensureSharedCopy } from './shared-copy.js';
import { syncToDisk } from './sync-to-disk.js';

const run = promisify(execFile);
const ACCOUNT = 'slipway';
/** The folder that every account can enter. */
export const HOME = '/var/lib/slipway';

export interface Account {
  uid: number;
  gid: number;
}

/** Returns the account that Postgres must run as, or undefined if it can be the starter's own. */
export async function postgresAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  return (await lookUp()) ?? (await create());
}

async function lookUp(): Promise<Account | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n');
  const fields = lines.find((line) => line.startsWith(`${ACCOUNT}:`))?.split(':');
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) };
}

/**
 * Maximum milliseconds in which the creation of the account is tried again. Another program that changes accounts locks
 * the system's lists of accounts only for a moment.
 */
const CREATE_PATIENCE_MS = 10_000;
const CREATE_POLL_MS = 100;

async function create(): Promise<Account> {
  const attempts: [string, string[]][] = [
    ['useradd', ['--system', '--user-group', '--home-dir', HOME, '--shell', '/bin/false', ACCOUNT]],
    ['adduser', ['-S', '-D', '-H', '-h', HOME, '-s', '/bin/false', ACCOUNT]],
  ];
  let failures: string[] = [];
  for (let waited = 0; waited < CREATE_PATIENCE_MS; waited += CREATE_POLL_MS) {
    failures = [];
    for (const [command, args] of attempts) {
      // If two platforms start at once, one finds that the account exists, or that the lists of accounts are locked.
      await run(command, args).catch((error: Error) =>
        failures.push(error.message.split('\n').at(-2) ?? error.message),
      );
      const account = await lookUp();
      if (account) return account;
    }
    await sleep(CREATE_POLL_MS);
  }
  throw new Error(`Postgres can't run as root, and the account "${ACCOUNT}" could not be made: ${failures.join('; ')}`);
}

/** True if other accounts may enter every folder above `target`. */
async function isReachable(target: string): Promise<boolean> {
  for (let folder = path.dirname(path.resolve(target)); ; folder = path.dirname(folder)) {
    const stats = await stat(folder).catch(() => undefined);
    if (stats && (stats.mode & 0o001) === 0) return false;
    if (folder === path.dirname(folder)) return true;
  }
}

/** Returns a folder with `bin/postgres` that `account` can run: `native` itself, or a permanent copy of it. */
export async function reachableBinaries(native: string, version: string, account: Account | undefined) {
  const program = path.join(native, 'bin', 'postgres');
  const isRunnable = async () => ((await stat(program)).mode & 0o005) === 0o005 && (await isReachable(program));
  if (!account || (await isRunnable())) return native;
  const copy = path.join(HOME, `postgres-${version}`);
  await makeHome();
  await ensureSharedCopy(native, copy);
  return copy;
}

async function makeHome(home = HOME): Promise<void> {
  await mkdir(home, { recursive: true });
  await chmod(home, 0o755);
}

/**
 * Makes the folder, owned by `account`, and returns its real path. It is in `shared` if `account` can't enter `folder`.
 */
export async function reachableFolder(folder: string, account: Account | undefined, shared = HOME): Promise<string> {
  const existing = await lstat(folder).catch(() => undefined);
  if (existing) {
    const real = await realpath(folder);
    if (account) await takeOver(real, account);
    const named = await linkTarget(folder);
    if (account && named && path.dirname(named) === shared) await adoptFolder(named, path.resolve(folder));
    return real;
  }
  if (!account) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }
  await mkdir(path.dirname(folder), { recursive: true });
  const elsewhere = !(await isReachable(folder));
  const real = elsewhere ? path.join(shared, `data-${randomBytes(6).toString('hex')}`) : folder;
  if (elsewhere) {
    await makeHome(shared);
    await writeRecord(real, path.resolve(folder));
  }
  await mkdir(real, { mode: 0o700 });
  await chown(real, account.uid, account.gid);
  if (elsewhere) {
    await symlink(real, folder);
    // If a power cut removed the link, the next start would make a new data folder.
    await syncToDisk(path.dirname(folder));
  }
  return real;
}

/**
 * Changes the owner of a folder to `account`, if the owner is root (after a killed start) or an account that no longer
 * exists.
 */
async function takeOver(folder: string, { uid, gid }: Account): Promise<void> {
  const owner = (await stat(folder)).uid;
  if (owner === uid) return;
  if (owner === 0) return await chown(folder, uid, gid);
  // After an uninstall by another installation, the account may exist again with another id.
  if (await isDeleted(owner)) await run('chown', ['-Rh', `${uid}:${gid}`, folder]);
}

/**
 * True if the system has no account with this id. False if there is no getent: accounts may be stored elsewhere than in
 * /etc/passwd.
 */
const isDeleted = (uid: number): Promise<boolean> =>
  run('getent', ['passwd', String(uid)]).then(
    () => false,
    (error: { code?: unknown }) => error.code === NOT_FOUND_BY_GETENT,
  );
const NOT_FOUND_BY_GETENT = 2;

/** Makes the socket folder. Programs of other accounts can enter it but not list it. */
export async function socketFolder(folder: string, account: Account | undefined): Promise<void> {
  await mkdir(folder, { recursive: true });
  await chmod(folder, account ? 0o711 : 0o700);
  if (account) await chown(folder, account.uid, account.gid);
}
