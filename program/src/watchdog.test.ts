/** Tests hangs that end a program, and situations that must not end it, with real processes and signals. */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HangJudge } from './hang-judge.js';
import { readHangs } from './hang-record.js';
import type { Order } from './hanging.testing.js';
import { HUNG_EXIT_CODE } from './watchdog.js';

const LIMIT_MS = 400;
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
const record = path.join(folder, 'hangs.json');
const children: ChildProcess[] = [];

test.after.each(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(record, { force: true });
});
test.after(() => rmSync(folder, { recursive: true }));

async function startProgram(): Promise<ChildProcess> {
  const main = fileURLToPath(new URL('./hanging.testing.js', import.meta.url));
  const child = fork(main, [record, String(LIMIT_MS)], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  children.push(child);
  await once(child, 'message');
  return child;
}

async function hang(order: Order) {
  const child = await startProgram();
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  child.send(order);
  const [code] = await once(child, 'close');
  const { time, pid, ...line } = JSON.parse(output);
  assert.is(pid, child.pid);
  return { code, line };
}

/** Resolves with the program's message, which an ended program never sends. */
async function obey(child: ChildProcess, order: Order): Promise<{ longestMs: number }> {
  child.send(order);
  const [answer] = await Promise.race([once(child, 'message'), once(child, 'close')]);
  assert.is(child.exitCode, null);
  return answer;
}

const lineOf = (project: string, operation: string) => ({
  level: 60,
  program: 'test',
  project,
  operation,
  processorSeconds: LIMIT_MS / 1000,
  exitCode: HUNG_EXIT_CODE,
  msg: 'program hung',
});

for (const doing of ['spin', 'native-spin'] as const) {
  test(`a program ends with its own code and logs project and operation when it hangs (${doing})`, async () => {
    const { code, line } = await hang({ project: 'first', operation: 'rest request', doing });
    assert.is(code, HUNG_EXIT_CODE);
    assert.equal(line, lineOf('first', 'rest request'));
    const [hung, ...others] = readHangs(record);
    assert.equal({ ...hung, at: 0 }, { at: 0, project: 'first', operation: 'rest request' });
    assert.equal(others, []);
  });
}

for (const [event, doing] of [
  ['a later turn', 'late-spin'],
  ['a later event of the same turn', 'other-spin'],
] as const) {
  test(`a hang in ${event} does not name the project of an earlier event`, async () => {
    const { code, line } = await hang({ project: 'first', operation: 'rest request', doing });
    assert.is(code, HUNG_EXIT_CODE);
    assert.equal(line, lineOf('', ''));
    assert.equal(readHangs(record), []);
  });
}

test('a program keeps running when it was stopped for longer than the limit within a turn', async () => {
  const child = await startProgram();
  const ended = obey(child, { doing: 'work', turns: 1, turnMs: 0.75 * LIMIT_MS });
  await once(child.stdout as Readable, 'data');
  child.kill('SIGSTOP');
  await once(spawn('sleep', [String((3 * LIMIT_MS) / 1000)]), 'close');
  child.kill('SIGCONT');
  assert.ok((await ended).longestMs > LIMIT_MS);
});

test('a program keeps running when its main thread waits for longer than the limit', async () => {
  await obey(await startProgram(), { project: 'first', doing: 'wait', waitMs: 3 * LIMIT_MS });
});

test('a program keeps running when other processes use the processors and a turn exceeds the limit', async () => {
  const child = await startProgram();
  setPriority(child.pid as number, 19);
  const busy = Array.from({ length: 8 }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
  children.push(...busy);
  for (let longest = 0; longest < LIMIT_MS; ) {
    longest = (await obey(child, { doing: 'work', turns: 1 })).longestMs;
  }
});

test('the watchdog’s judge counts the processor time of one turn, and resets it when the turn ends', () => {
  const judge = new HangJudge(100);
  const looks = [
    [1, 500],
    [1, 599],
    [2, 600],
    [2, 699],
    [2, 699],
    [2, 700],
  ] as const;
  assert.equal(
    looks.map(([turns, ms]) => judge.isHung(turns, ms)),
    [false, false, false, false, false, true],
  );
});

test.run();
