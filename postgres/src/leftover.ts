/**
 * Handles processes and lock files that an earlier start left behind. In: a data folder. Called before the folder is
 * opened, and before its port is tried.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, readlink, realpath, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

const POLL_MS = 20;

/** Ends a server that survived the program that started it, and processes that survived their server. */
export async function endLeftover(folder: string): Promise<void> {
  const real = await realpath(folder).catch(() => undefined);
  if (!real) return;
  const postmaster = await runningPostmaster(real);
  // SIGINT disconnects all clients and writes a checkpoint. After SIGQUIT the next start must recover.
  if (postmaster) await end([postmaster], { SIGINT: 10_000, SIGQUIT: 10_000, SIGKILL: 10_000 });
  // A server process that is busy in a query detects its postmaster's end late. Until then it blocks the shared memory.
  await end(await processesIn(real), { SIGQUIT: 500, SIGKILL: 10_000 });
}

/** Sends the signals in order. Each value is the time in milliseconds before the next signal. */
async function end(pids: number[], signals: Partial<Record<NodeJS.Signals, number>>): Promise<void> {
  for (const [name, patience] of Object.entries(signals)) {
    for (const pid of pids) signal(pid, name as NodeJS.Signals);
    for (let waited = 0; waited < patience; waited += POLL_MS) {
      if ((await running(pids)).length === 0) return;
      await sleep(POLL_MS);
    }
  }
  throw new Error(`the Postgres of an earlier start (process ${(await running(pids)).join(', ')}) does not end`);
}

/**
 * Removes the lock files of the server in `folder`, after `endLeftover` found that none of its processes runs. Postgres
 * itself removes a lock file only if no process has the id in the file, and otherwise refuses to start. A killed server
 * keeps its process id until its parent reaps it, and some parents never do. Another program may have the id by now.
 */
export async function removeStaleLocks(folder: string, socketFolder: string, port: number): Promise<void> {
  const files = [path.join(folder, 'postmaster.pid'), path.join(socketFolder, `.s.PGSQL.${port}.lock`)];
  for (const file of files) {
    const [pid, itsFolder] = (await readFile(file, 'utf8').catch(() => '')).split('\n');
    // The lock of the socket may belong to a server with another folder.
    if (!pid || (file !== files[0] && itsFolder !== folder)) continue;
    if (!(await isPostgresOf(Number(pid), folder))) await rm(file, { force: true });
  }
}

async function runningPostmaster(folder: string): Promise<number | undefined> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  // Another program may have this id by now. Only a process that works in this folder is ours.
  return pid && (await isPostgresOf(pid, folder)) ? pid : undefined;
}

async function processesIn(folder: string): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).map(Number).filter(Boolean);
  const ours = await Promise.all(pids.map((pid) => isPostgresOf(pid, folder)));
  return pids.filter((_, i) => ours[i]);
}

/**
 * True if `pid` is a process of Postgres or initdb over `folder`. A process that has ended has no working directory,
 * even before it is reaped.
 */
async function isPostgresOf(pid: number, folder: string): Promise<boolean> {
  // The arguments of a postmaster contain its folder.
  if (process.platform !== 'linux') return (await ps(pid, 'command')).includes(`postgres -D ${folder} `);
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
  if (cwd !== folder) return false;
  return /^(postgres|initdb)/.test(await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => ''));
}

async function running(pids: number[]): Promise<number[]> {
  const are = await Promise.all(pids.map(isRunning));
  return pids.filter((_, i) => are[i]);
}

/** False for a process that has ended and is not reaped yet: it has neither memory nor open files. */
async function isRunning(pid: number): Promise<boolean> {
  const state = process.platform === 'linux' ? await stateOf(pid) : await ps(pid, 'state');
  return state !== '' && !/^[ZX]/.test(state);
}

async function stateOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The program's name is in parentheses and may contain any character.
  return stat.slice(stat.lastIndexOf(')') + 2);
}

const ps = (pid: number, field: 'state' | 'command'): Promise<string> =>
  run('ps', ['-ww', '-o', `${field}=`, '-p', String(pid)]).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  );

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended already.
  }
}
