import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlive, parentOf, until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { removeFunctions } from './testing.js';

let home: string;
let program: ChildProcess | undefined;
test.before.each(() => {
  home = mkdtempSync(path.join(tmpdir(), 'slipway-kill-'));
});
test.after.each(() => {
  program?.kill('SIGKILL');
  // Leftovers that a start with the same home would remove.
  rmSync(readFileSync(path.join(home, 'functions', 'sockets'), 'utf8'), { recursive: true, force: true });
  removeFunctions(home);
});

async function start(deploy: 'deploy' | 'as it was'): Promise<string> {
  program = fork(fileURLToPath(new URL('./kill.testing.js', import.meta.url)), [home, deploy]);
  return new Promise((resolve) => program?.once('message', (url) => resolve(url as string)));
}
const pidAt = async (url: string) => Number(await (await fetch(url)).text());
const kill = async () => {
  const ended = new Promise((resolve) => program?.once('exit', resolve));
  program?.kill('SIGKILL');
  await ended;
};

test('an isolate that is killed is replaced by the next call', async () => {
  const url = await start('deploy');
  const pid = await pidAt(url);
  process.kill(pid, 'SIGKILL');
  await until(() => !isAlive(pid), 'its end');
  const next = await until(() => pidAt(url), 'another');
  assert.is.not(next, pid);
});

test('isolates end when their launcher is killed, and the next call starts launcher and isolate again', async () => {
  const url = await start('deploy');
  const pid = await pidAt(url);
  const launcher = parentOf(pid);
  assert.is.not(launcher, program?.pid);
  process.kill(launcher, 'SIGKILL');
  await until(() => !isAlive(pid), 'the end of the isolate');
  assert.is.not(await until(() => pidAt(url), 'another'), pid);
});

test('isolates end when the program is killed, and deployed functions serve after its restart', async () => {
  const pid = await pidAt(await start('deploy'));
  await kill();
  await until(() => !isAlive(pid), 'the end of the isolate');
  const again = await pidAt(await start('as it was'));
  assert.ok(again > 0);
  assert.is.not(again, pid);
});

test('an isolate in an endless loop ends when its program is killed', async () => {
  const url = await start('deploy');
  const pid = await pidAt(url);
  void fetch(url, { method: 'POST', body: 'spin' }).catch(() => undefined);
  await kill();
  await until(() => !isAlive(pid), 'the end of the isolate');
});

test.run();
