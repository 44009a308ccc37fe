/**
 * Manages /var/lib/slipway, which all installations on a machine share that root started. It contains folders of data
 * and of functions, and copies of programs. Postgres runs as the account `slipway`. In: the path of the folder. Used by
 * `npm run uninstall` and by each start.
 */
import { execFile } from 'node:child_process';
import { access, constants, lstat, readdir, readFile, readlink, realpath, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { linkTarget, readRecord } from '@slipway/postgres';
import { lockHolder } from './lock.js';
import { StartProblem } from './problem.js';

const run = promisify(execFile);

export interface SharedFolder {
  path: string;
  /** owned: an installation uses it. orphan: its installation was deleted. unknown: it has no record. */
  state: 'owned' | 'orphan' | 'unknown';
  /** The path of the link in its installation, if it has a record. */
  link?: string;
}

const FOLDER_NAME = /^(data|functions)-/;
const PROGRAM_NAME = /^(postgres|deno)-/;
const RECORD_END = /\.home(\.[0-9a-f]{12}\.new)?$/;

/** True for the path of a folder of data or functions, even if the folder does not exist. */
export const isSharedFolder = (target: string, shared: string): boolean =>
  path.dirname(target) === shared && FOLDER_NAME.test(path.basename(target)) && !RECORD_END.test(target);

/** Lists the folders, and the records whose folder is already removed. */
export async function sharedFolders(shared: string): Promise<SharedFolder[]> {
  const names = (await namesIn(shared)).filter((name) => FOLDER_NAME.test(name));
  const folders = [...new Set(names.map((name) => path.join(shared, name.replace(RECORD_END, ''))))];
  return await Promise.all(folders.map(sharedFolder));
}

export async function sharedFolder(folder: string): Promise<SharedFolder> {
  try {
    const link = await readRecord(folder);
    if (!link) return { path: folder, state: 'unknown' };
    return { path: folder, link, state: (await isOwned(folder, link)) ? 'owned' : 'orphan' };
  } catch {
    // A disk that does not respond must not turn a folder into an orphan.
    return { path: folder, state: 'unknown' };
  }
}

/** True if an installation owns the folder. A start makes the folder before its link, but after it locks its home. */
async function isOwned(folder: string, link: string): Promise<boolean> {
  const target = await linkTarget(link);
  if (target !== undefined) return target === folder;
  const parent = path.dirname(link);
  return (await lockHolder(path.basename(folder).startsWith('data-') ? parent : path.dirname(parent))) !== undefined;
}

/** Returns the processes that work in `folder` or run a program in it. */
export async function processesIn(folder: string): Promise<number[]> {
  const real = await realpath(folder).catch(() => folder);
  if (process.platform !== 'linux') return await postmasterOf(real);
  const pids = (await readdir('/proc')).map(Number).filter(Boolean);
  const uses = await Promise.all(pids.map((pid) => isProcessIn(pid, real)));
  return pids.filter((_, i) => uses[i]);
}

async function isProcessIn(pid: number, folder: string): Promise<boolean> {
  const links = ['cwd', 'exe'].map((name) => readlink(`/proc/${pid}/${name}`).catch(() => ''));
  return (await Promise.all(links)).some((target) => target === folder || target.startsWith(`${folder}${path.sep}`));
}

async function postmasterOf(folder: string): Promise<number[]> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  try {
    if (pid) process.kill(pid, 0);
    return pid ? [pid] : [];
  } catch {
    return [];
  }
}

/** Removes the folder and then its record, so that another run finds an interrupted removal. */
export async function removeSharedFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  // A killed start may have left an unfinished record.
  const names = (await namesIn(path.dirname(folder))).filter((name) => RECORD_END.test(name));
  const records = names.map((name) => path.join(path.dirname(folder), name));
  for (const record of records) if (record.replace(RECORD_END, '') === folder) await rm(record, { force: true });
}

export async function expectWritable(shared: string): Promise<void> {
  await access(shared, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw new StartProblem(`may not write in ${shared}: run the command as root`);
  });
}

/** Removes the copies of programs and the account, unless a folder or a process of an installation needs them. */
export async function removeUnusedPrograms(shared: string, say: (text: string) => void): Promise<void> {
  if ((await namesIn(shared)).some((name) => FOLDER_NAME.test(name))) return;
  const users = await processesIn(shared);
  if (users.length > 0) return say(`! ${shared} stays: process ${users.join(', ')} runs a program in it`);
  for (const name of (await namesIn(shared)).filter((each) => PROGRAM_NAME.test(each))) {
    await rm(path.join(shared, name), { recursive: true, force: true });
  }
  await removeAccount(shared, say);
  // The folder is busy if it is the mount point of a disk.
  await rmdir(shared).catch((error: NodeJS.ErrnoException) => {
    if (!['ENOENT', 'ENOTEMPTY', 'EBUSY'].includes(error.code ?? '')) throw error;
  });
}

const ACCOUNT = 'slipway';

/** Removes the account. If its home folder is another one, Slipway did not make the account, and it stays. */
async function removeAccount(shared: string, say: (text: string) => void): Promise<void> {
  const isOurs = async () => {
    const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n').map((line) => line.split(':'));
    return lines.some((fields) => fields[0] === ACCOUNT && fields[5] === shared);
  };
  if (!(await isOurs())) return;
  const failures: string[] = [];
  for (const command of ['userdel', 'deluser']) {
    await run(command, [ACCOUNT]).catch((error: Error) => failures.push(error.message.trim().split('\n').join('; ')));
    if (!(await isOurs())) return;
  }
  say(`! the account "${ACCOUNT}" stays: ${failures.join('; ')}`);
}

async function namesIn(folder: string): Promise<string[]> {
  const stats = await lstat(folder).catch(() => undefined);
  return stats ? await readdir(folder) : [];
}
