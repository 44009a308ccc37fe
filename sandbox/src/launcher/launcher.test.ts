import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, parentOf, until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Launcher } from './launcher.js';

const log = pino({ level: 'silent' });
const launcher = new Launcher(log);
test.after(() => launcher.close());

const run = (script: string, input?: string, from = launcher) =>
  from.start({
    command: '/bin/sh',
    args: ['-c', script],
    cwd: '/',
    env: { GIVEN: 'this alone' },
    ...(input !== undefined && { input }),
  });
const LASTS = 'exec sleep 600';
const pidOf = async (launched: ReturnType<typeof run>) => {
  launched.stdout.resume();
  launched.stderr.resume();
  return await until(() => launched.pid, 'its start');
};

const errorOf = (launched: ReturnType<typeof run>) =>
  launched.closed.then(
    () => undefined,
    (reason: Error) => reason,
  );

test('a process gets its arguments, folder, variables and input, and its output and exit are reported', async () => {
  const launched = run('read line; echo "$line in $PWD, $GIVEN"; echo apart >&2; exit 3', 'said\n');
  const [out, complaints, exit] = await Promise.all([text(launched.stdout), text(launched.stderr), launched.closed]);
  assert.is(out, 'said in /, this alone\n');
  assert.is(complaints, 'apart\n');
  assert.equal(exit, { code: 3, signal: null });
  assert.is(launched.pid, undefined);
});

test('a process without input reads an empty standard input', async () => {
  const launched = run('read line; echo "$?"');
  assert.is(await text(launched.stdout), '1\n');
});

test('a process with input keeps its standard input open', async () => {
  const launched = run('cat; echo over', 'begun\n');
  let seen = '';
  launched.stdout.on('data', (chunk) => {
    seen += chunk;
  });
  launched.stderr.resume();
  await until(() => seen === 'begun\n', 'what was given');
  await pause(200);
  assert.is(seen, 'begun\n');
  launched.kill();
  await launched.closed;
});

test('a launcher kills one process, and its other processes keep running', async () => {
  const [one, other] = [run(LASTS), run(LASTS)];
  const [pid, lasting] = [await pidOf(one), await pidOf(other)];
  one.kill();
  assert.equal(await one.closed, { code: null, signal: 'SIGKILL' });
  assert.not(isAlive(pid));
  assert.ok(isAlive(lasting));
  other.kill();
  await other.closed;
});

test('a command that can’t be started rejects with the reason', async () => {
  const launched = launcher.start({ command: '/nowhere/at-all', args: [], cwd: '/', env: {} });
  launched.stdout.resume();
  launched.stderr.resume();
  assert.match((await errorOf(launched))?.message ?? '', /\/nowhere\/at-all ENOENT/);
});

test('a command that the system rejects at once affects no other command', async () => {
  const other = run(LASTS);
  const lasting = await pidOf(other);
  const launched = run(`: ${'x'.repeat(2 ** 20)}`);
  assert.match((await errorOf(launched))?.message ?? '', /E2BIG/);
  assert.ok(isAlive(lasting));
  assert.is(other.pid, lasting);
  other.kill();
  await other.closed;
});

test('output without a reader blocks its process, and is not lost', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const written = path.join(folder, 'written');
  const launched = run(`yes | head -c 8000000; : > '${written}'`);
  launched.stderr.resume();
  const first = await new Promise<Buffer>((resolve) => launched.stdout.once('data', resolve));
  launched.stdout.pause();
  await pause(500);
  assert.not(existsSync(written));
  assert.is(first.length + (await text(launched.stdout)).length, 8_000_000);
  assert.equal(await launched.closed, { code: 0, signal: null });
  assert.ok(existsSync(written));
  rmSync(folder, { recursive: true });
});

test('a command after a crash of the launcher process is started by a new one', async () => {
  const lines: string[] = [];
  const own = new Launcher(pino({}, { write: (line: string) => lines.push(line) }));
  own.warmUp();
  const lost = run(LASTS, undefined, own);
  const pid = await pidOf(lost);
  process.kill(parentOf(pid), 'SIGKILL');
  assert.match((await errorOf(lost))?.message ?? '', /has ended/);
  process.kill(pid, 'SIGKILL');
  assert.match(lines.join(), /SIGKILL/);
  const next = run('echo again', undefined, own);
  next.stderr.resume();
  assert.is(await text(next.stdout), 'again\n');
  own.close();
});

test('a launcher process that does not kill its command is killed itself', async () => {
  const own = new Launcher(log);
  const launched = run(LASTS, undefined, own);
  const pid = await pidOf(launched);
  process.kill(parentOf(pid), 'SIGSTOP');
  launched.kill();
  assert.match((await errorOf(launched))?.message ?? '', /has ended/);
  process.kill(pid, 'SIGKILL');
  own.close();
});

test('a launcher keeps running when a process that has exited is killed', async () => {
  const own = new Launcher(log, [], 200);
  const over = run('exit 1', undefined, own);
  over.stdout.resume();
  over.stderr.resume();
  assert.equal(await over.closed, { code: 1, signal: null });
  over.kill();
  // Runs for longer than the timeout: killing the launcher would kill this process too.
  const other = run('sleep 1', undefined, own);
  other.stdout.resume();
  other.stderr.resume();
  assert.equal(await other.closed, { code: 0, signal: null });
  own.close();
});

test('the id of a process is unset after its exit, although its output is still being read', async () => {
  const launched = run('sleep 1; echo said');
  launched.stderr.resume();
  await until(() => launched.pid, 'its start');
  await until(() => launched.pid === undefined, 'its end');
  assert.is(await text(launched.stdout), 'said\n');
  await launched.closed;
});

test('a closed launcher kills its processes and starts no more', async () => {
  const own = new Launcher(log);
  const launched = run('cat', 'x', own);
  const parent = parentOf(await pidOf(launched));
  own.close();
  await until(() => !isAlive(parent), 'its end');
  await errorOf(launched);
  const late = run('echo late', undefined, own);
  late.stderr.resume();
  assert.is(await text(late.stdout), '');
  assert.match((await errorOf(late))?.message ?? '', /is closed/);
});

test.run();
