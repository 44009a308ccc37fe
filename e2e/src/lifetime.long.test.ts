/** Tests the end of a platform: what remains after a kill, and how it stops while it is under attack. */
import { readdir, readFile } from 'node:fs/promises';
import { isAlive, until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type RunningPlatform, startPlatform } from './platform.js';
import { commandOf, processTree, send } from './processes.js';

/**
 * Maximum milliseconds until all processes have ended. On an idle machine this takes up to 5 s, or up to 10 s under
 * attack.
 */
const PATIENCE_MS = 30_000;

test('a killed program leaves no process behind, and neither does a killed supervisor', async () => {
  const platform = await startPlatform();
  try {
    for (const program of await programsOf(platform)) {
      const tree = await processTree(program);
      const begun = performance.now();
      process.kill(program, 'SIGKILL');
      await until(() => !tree.some(isAlive), 'every process below it has ended', PATIENCE_MS);
      report(`a killed program with all ${tree.length - 1} processes below it`, begun);
    }
    const begun = performance.now();
    process.kill(platform.pid, 'SIGKILL');
    await untilNoneIsLeft(platform.home);
    report('all processes after the supervisor was killed', begun);
  } finally {
    await removeAll(platform);
  }
});

test('a platform with busy sessions leaves no process behind when all its programs are killed at once', async () => {
  const platform = await startPlatform();
  try {
    const client = await connect(platform);
    client.query('select count(*) from generate_series(1, 1e12) a').catch(() => {});
    const [supervisor, ...others] = await processTree(platform.pid);
    const begun = performance.now();
    for (const pid of [supervisor as number, ...others]) if (!(await isSession(pid))) send(pid, 'SIGKILL');
    // The attack's client ends together with the platform.
    await client.end().catch(() => {});
    await untilNoneIsLeft(platform.home);
    report('busy sessions after the platform was killed', begun);
  } finally {
    await removeAll(platform);
  }
});

test('a platform stops when programs and sessions hang, and keeps acknowledged rows', async () => {
  const platform = await startPlatform();
  let next: RunningPlatform | undefined;
  try {
    const client = await connect(platform);
    await client.query('create table kept as select 1 as n');
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const busy = client.query('select count(*) from generate_series(1, 1e12) a').catch(() => {});
    for (const pid of [...(await programsOf(platform)), rows[0]?.pid as number]) process.kill(pid, 'SIGSTOP');
    process.kill(platform.pid, 'SIGTERM');
    await until(() => !isAlive(platform.pid), 'the platform has ended', PATIENCE_MS);
    await untilNoneIsLeft(platform.home);
    await busy;
    next = await startPlatform(platform);
    const again = await connect(next);
    assert.equal((await again.query('select n from kept')).rows, [{ n: 1 }]);
    await again.end();
  } finally {
    await removeAll(next ?? platform);
  }
});

/** Reports how long an end took, which should be less than 5 s. scripts/test.mjs shows lines that begin like this. */
const report = (what: string, begun: number) =>
  console.log(`\n# ${what} had ended after ${Math.round(performance.now() - begun)} ms`);

/** Returns the children of the supervisor that are Node programs. */
async function programsOf(platform: RunningPlatform): Promise<number[]> {
  const tree = (await processTree(platform.pid)).slice(1);
  const are = await Promise.all(
    tree.map(async (pid) => / \S*\/(apiserver|api|operator|dataplane)\/dist\/main\.js/.test(await commandOf(pid))),
  );
  const programs = tree.filter((_, at) => are[at]);
  assert.is(programs.length, 4);
  return programs;
}

const isSession = async (pid: number) => (await commandOf(pid)).startsWith('postgres: slipway postgres ');

async function connect(platform: RunningPlatform): Promise<pg.Client> {
  const client = new pg.Client(await platform.admin());
  client.on('error', () => {});
  await client.connect();
  return client;
}

const untilNoneIsLeft = (home: string) =>
  until(async () => (await processesOver(home)).length === 0, 'no process is left', PATIENCE_MS);

/** Returns the processes with the home in their arguments or environment, as Postgres and the programs have. */
async function processesOver(home: string): Promise<number[]> {
  const all = (await readdir('/proc')).map(Number).filter((pid) => pid && pid !== process.pid);
  const texts = (pid: number) => ['cmdline', 'environ'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8'));
  const are = await Promise.all(
    all.map(async (pid) =>
      (await Promise.allSettled(texts(pid))).some((text) => text.status === 'fulfilled' && text.value.includes(home)),
    ),
  );
  return all.filter((_, at) => are[at]);
}

async function removeAll(platform: RunningPlatform): Promise<void> {
  for (const pid of await processesOver(platform.home)) send(pid, 'SIGKILL');
  await platform.remove();
}

test.run();
