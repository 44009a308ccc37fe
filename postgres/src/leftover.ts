/**
 * Processes and lock files that an earlier start left behind. In: a data folder. Called before the folder is opened,
 * and before its port is tried.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, readlink, realpath, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

const POLL_MS = 20;

/** Ends the server that outlived the program that started it, and processes that outlived their server. */
export async function endLeftover(folder: string): Promise<void> {
  const real = await realpath(folder).catch(() => undefined);
  if (!real) return;
  const postmaster = await runningPostmaster(real);
  // SIGINT disconnects everyone and checkpoints; SIGQUIT leaves the rest to recovery.
  if (postmaster) await end([postmaster], ['SIGINT', 'SIGQUIT', 'SIGKILL']);
  // A server process busy in a query notices its postmaster's death late, and holds the shared memory until then.
  await end(await processesIn(real), ['SIGQUIT', 'SIGKILL']);
}

async function end(pids: number[], signals: NodeJS.Signals[]): Promise<void> {
  for (const name of signals) {
    for (const pid of pids) signal(pid, name);
    for (let waited = 0; waited < 10_000; waited += POLL_MS) {
      if ((await running(pids)).length === 0) return;
      await sleep(POLL_MS);
    }
  }
  throw new Error(`the Postgres of an earlier start (process ${(await running(pids)).join(', ')}) does not end`);
}

/**
 * Removes the lock files of the server in `folder`, once `endLeftover` found that none of its processes runs. Postgres
 * itself removes such a file only if no process has the number in it, and refuses to start otherwise: a killed server
 * keeps its number until its parent reaps it, which some never do, and another program may have the number by now.
 */
export async function removeStaleLocks(folder: string, socketFolder: string, port: number): Promise<void> {
  const files = [path.join(folder, 'postmaster.pid'), path.join(socketFolder, `.s.PGSQL.${port}.lock`)];
  for (const file of files) {
    const [pid, itsFolder] = (await readFile(file, 'utf8').catch(() => '')).split('\n');
    // The socket's lock may be of a server over another folder.
    if (!pid || (file !== files[0] && itsFolder !== folder)) continue;
    if (!(await isPostgresOf(Number(pid), folder))) await rm(file, { force: true });
  }
}

async function runningPostmaster(folder: string): Promise<number | undefined> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  // The number may have gone to another program since: only one that works in this folder is ours.
  return pid && (await isPostgresOf(pid, folder)) ? pid : undefined;
}

async function processesIn(folder: string): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).map(Number).filter(Boolean);
  const ours = await Promise.all(pids.map((pid) => isPostgresOf(pid, folder)));
  return pids.filter((_, i) => ours[i]);
}

/**
 * Whether `pid` is a Postgres process over `folder`. One that has ended, though not reaped yet, has no working
 * directory.
 */
async function isPostgresOf(pid: number, folder: string): Promise<boolean> {
  // A postmaster is started with its folder in its arguments.
  if (process.platform !== 'linux') return (await ps(pid, 'command')).includes(`postgres -D ${folder} `);
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
  if (cwd !== folder) return false;
  return (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).startsWith('postgres');
}

async function running(pids: number[]): Promise<number[]> {
  const are = await Promise.all(pids.map(isRunning));
  return pids.filter((_, i) => are[i]);
}

/** False for a process that has ended and is not reaped yet: it holds neither memory nor files any more. */
async function isRunning(pid: number): Promise<boolean> {
  const state = process.platform === 'linux' ? await stateOf(pid) : await ps(pid, 'state');
  return state !== '' && !/^[ZX]/.test(state);
}

async function stateOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The program's name stands in parentheses and may hold any character.
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
    // It has ended meanwhile.
  }
}
