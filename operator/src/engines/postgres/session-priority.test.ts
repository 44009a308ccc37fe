import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { getPriority } from 'node:os';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { canSetPriority, SessionPriority } from './session-priority.js';

/**
 * Returns the changes of one session's niceness. Looks are 200 ms apart, and the session uses `shares` of a processor
 * between them.
 */
async function changesOf(shares: number[]): Promise<string[]> {
  const changes: string[] = [];
  let at = 0;
  const priority = new SessionPriority(async (pid, niceness) => void changes.push(`${at}: ${pid} ${niceness}`));
  let cpu = 0;
  for (const share of [0, ...shares]) {
    cpu += share * 200;
    await priority.look([{ pid: 7, startedAt: 'now', cpu }], at++ * 200);
  }
  return changes;
}

const of = (count: number, share: number) => Array.from({ length: count }, () => share);

test('a session has a low priority while it keeps a processor busy, until it rests', async () => {
  assert.equal(await changesOf([...of(10, 1), ...of(20, 0)]), ['3: 7 10', '21: 7 0']);
});

test('a session of many short statements keeps its priority', async () => {
  assert.equal(await changesOf(of(1000, 0.24)), []);
});

test('a session starts without the debt of an earlier session with the same process id', async () => {
  const changes: number[] = [];
  const priority = new SessionPriority(async (_, niceness) => void changes.push(niceness));
  await priority.look([{ pid: 7, startedAt: 'first', cpu: 200 }], 0);
  await priority.look([{ pid: 7, startedAt: 'second', cpu: 200 }], 200);
  assert.equal(changes, []);
});

test('a process that is not a session of Postgres keeps its priority', async () => {
  const child = spawn('sleep', ['60']);
  try {
    await once(child, 'spawn');
    await new SessionPriority().look([{ pid: child.pid as number, startedAt: 'now', cpu: 10_000 }], 0);
    assert.is(getPriority(child.pid), getPriority());
  } finally {
    child.kill();
  }
});

test('priorities stay unchanged when Postgres may be on another machine', () => {
  assert.not(canSetPriority('postgres://slipway:x@db.example.com:5432/postgres'));
});

test.run();
