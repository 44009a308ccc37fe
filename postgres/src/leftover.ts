/**
 * What an earlier start left running. In: a data folder. Called before the folder is opened, and before its port is tried.
 */
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

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
      if (!pids.some(isAlive)) return;
      await sleep(POLL_MS);
    }
  }
  throw new Error(`the Postgres of an earlier start (process ${pids.filter(isAlive).join(', ')}) does not end`);
}

async function runningPostmaster(folder: string): Promise<number | undefined> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  if (!pid || !isAlive(pid)) return undefined;
  // The number may have gone to another program since: only one that works in this folder is ours.
  return process.platform !== 'linux' || (await worksIn(pid, folder)) ? pid : undefined;
}

async function processesIn(folder: string): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).map(Number).filter(Boolean);
  const ours = await Promise.all(pids.map((pid) => worksIn(pid, folder)));
  return pids.filter((_, i) => ours[i]);
}

/** Whether `pid` is a Postgres process (its working directory is its data folder). */
async function worksIn(pid: number, folder: string): Promise<boolean> {
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
  if (cwd !== folder) return false;
  return (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).startsWith('postgres');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Gone meanwhile, which is what was wanted.
  }
}
