/** Kills the program that started a server, alone and together with others. No process of the server may survive it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, readdir, readFile, readlink, realpath, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

/** Starts a server with a busy session that never reads from its client, and prints the process ids. */
const STARTER = `
const { default: pg } = await import('pg');
const { startPostgres } = await import(process.env.MODULE);
const options = JSON.parse(process.env.OPTIONS);
const start = async () => {
  const server = await startPostgres(options);
  const { port, socket: host } = server;
  const client = new pg.Client({ host, port, user: 'slipway', password: options.password, database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  const { rows: [{ pid }] } = await client.query('select pg_backend_pid() as pid');
  client.query('select count(*) from generate_series(1, 1e12) a').catch(() => {});
  process.stdout.write(server.pid + ' ' + pid + '\\n');
  await server.exited;
};
for (;;) await start();
`;

interface Running {
  starter: ChildProcess;
  postmaster: number;
  busy: number;
  /** The real path of the data folder. */
  folder: string;
}

/** Maximum milliseconds until all processes have ended. On an idle machine this takes up to 5 s. */
const PATIENCE_MS = 20_000;

const NOBODY = 65534;
const accounts = process.getuid?.() === 0 ? [undefined, NOBODY] : [undefined];

for (const uid of accounts) {
  const title = uid === undefined ? 'this account' : 'an ordinary account';

  test(`a server of ${title} ends cleanly once its starter is killed`, () =>
    withStarter(uid, async ({ starter, folder }) => {
      kill([starter.pid]);
      await untilNoneIsLeft(folder);
      assert.is(await stat(path.join(folder, 'postmaster.pid')).catch(() => undefined), undefined);
    }));

  test(`a server of ${title} ends once its starter is killed, even with a busy session`, () =>
    withStarter(uid, async ({ starter, busy, folder }) => {
      process.kill(busy, 'SIGSTOP');
      kill([starter.pid]);
      await untilNoneIsLeft(folder);
    }));

  test(`the guard of ${title} ends busy sessions once the starter and the postmaster are killed`, () =>
    withStarter(uid, async ({ starter, postmaster, folder }) => {
      kill([starter.pid, postmaster]);
      await untilNoneIsLeft(folder);
    }));

  test(`a server of ${title} ends once its starter and its guard are killed`, () =>
    withStarter(uid, async ({ starter, folder }) => {
      kill([starter.pid, await guardOf(folder)]);
      await untilNoneIsLeft(folder);
    }));

  test(`busy sessions of ${title} end once starter, guard and postmaster are killed`, () =>
    withStarter(uid, async ({ starter, postmaster, folder }) => {
      kill([starter.pid, await guardOf(folder), postmaster]);
      await untilNoneIsLeft(folder);
    }));

  test(`a guard of ${title} that was killed is replaced`, () =>
    withStarter(uid, async ({ starter, postmaster, folder }) => {
      const first = await guardOf(folder);
      kill([first]);
      await until('another guard', async () => ![undefined, first].includes(await guardOf(folder)));
      process.kill(postmaster, 0);
      kill([starter.pid]);
      await untilNoneIsLeft(folder);
    }));

  test(`a server of ${title} can start again once its postmaster is killed, even with a busy session`, () =>
    withStarter(uid, async ({ starter, postmaster, busy, folder }) => {
      kill([postmaster]);
      const next = await pids(starter);
      assert.is.not(next[0], postmaster);
      assert.is((await processesOf(folder)).includes(busy), false);
    }));
}

async function withStarter(uid: number | undefined, work: (running: Running) => Promise<void>): Promise<void> {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
  if (uid !== undefined) await chown(home, uid, uid);
  const folder = path.join(home, 'data');
  const options = { folder, socketFolder: path.join(home, 's'), port: await freePort(), password: 'canary-password' };
  const settings = { shared_buffers: '32MB' };
  const starter = spawn(process.execPath, ['--input-type=module', '-e', STARTER], {
    ...(uid !== undefined && { uid, gid: uid }),
    cwd: new URL('.', import.meta.url),
    env: {
      PATH: process.env.PATH,
      TMPDIR: home,
      MODULE: new URL('./server.js', import.meta.url).href,
      OPTIONS: JSON.stringify({ ...options, settings }),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(starter, 'exit');
  try {
    const [postmaster, busy] = await pids(starter);
    await work({ starter, postmaster, busy, folder: await realpath(folder) });
  } finally {
    kill([starter.pid]);
    await ended;
    for (const pid of await processesOf(folder)) kill([pid]);
    await rm(home, { recursive: true, force: true });
  }
}

/** Returns the process ids that the starter prints. */
async function pids(starter: ChildProcess): Promise<[number, number]> {
  const [line] = await Promise.race([
    once(starter.stdout as NodeJS.ReadableStream, 'data'),
    once(starter, 'exit').then(() => Promise.reject(new Error('the starter ended'))),
  ]);
  return String(line).trim().split(' ').map(Number) as [number, number];
}

function kill(targets: (number | undefined)[]): void {
  for (const pid of targets) {
    try {
      process.kill(pid as number, 'SIGKILL');
    } catch {
      // The process has ended already.
    }
  }
}

const untilNoneIsLeft = (folder: string) =>
  until('no process is left', async () => (await processesOf(folder)).length === 0);

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + PATIENCE_MS; !(await holds()); await sleep(20)) {
    if (performance.now() > end) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
  }
}

/** Returns the processes that work in the data folder or have it in their arguments, except this one. */
async function processesOf(folder: string): Promise<number[]> {
  const all = (await readdir('/proc')).map(Number).filter((pid) => pid && pid !== process.pid);
  const are = await Promise.all(
    all.map(async (pid) => {
      const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
      return cwd !== '' && (cwd === folder || (await argumentsOf(pid)).includes(folder));
    }),
  );
  return all.filter((_, at) => are[at]);
}

const argumentsOf = async (pid: number) => (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');

async function guardOf(folder: string): Promise<number | undefined> {
  for (const pid of await processesOf(folder)) {
    const words = await argumentsOf(pid);
    if (words[0] === 'sh' && words.at(-2) === folder) return pid;
  }
  return undefined;
}

test.run();
