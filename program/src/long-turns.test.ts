/** Tests the logging of turns that use much processor time, with a real process. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Order } from './hanging.testing.js';
import { LONG_TURN_MESSAGE, LONG_TURN_MS, TurnMeter } from './long-turns.js';

/** Limit of the watchdog in milliseconds: longer than any turn in these tests, so that the watchdog ends nothing. */
const HANG_LIMIT_MS = 60_000;

let program: ChildProcess | undefined;

test.after.each(() => {
  program?.kill('SIGKILL');
});

/** Returns the lines about long turns, without values that differ between runs. */
async function logOf(orders: Order[]): Promise<object[]> {
  const main = fileURLToPath(new URL('./hanging.testing.js', import.meta.url));
  program = fork(main, ['', String(HANG_LIMIT_MS)], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  let output = '';
  program.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  await once(program, 'message');
  for (const order of orders) {
    program.send(order);
    await once(program, 'message');
  }
  const closed = once(program, 'close');
  program.kill();
  await closed;
  const lines = output.split('\n').filter((line) => line.includes(LONG_TURN_MESSAGE));
  return lines.map((line) => {
    const { time, pid, processorMs, ...rest } = JSON.parse(line);
    assert.ok(processorMs >= LONG_TURN_MS);
    return rest;
  });
}

const lineOf = (project: string, operation: string) => ({
  ...{ level: 40, program: 'test', project, operation },
  msg: LONG_TURN_MESSAGE,
});

test('a turn that uses much processor time is logged with its project and operation', async () => {
  const work = { doing: 'work', turns: 1, turnMs: 2 * LONG_TURN_MS } as const;
  const logged = await logOf([{ ...work, project: 'first', operation: 'rest request' }, work]);
  assert.equal(logged, [lineOf('first', 'rest request'), lineOf('', '')]);
});

test('many short turns and a turn that waits are not logged', async () => {
  const logged = await logOf([
    { doing: 'work', turns: 40, turnMs: 20 },
    { doing: 'wait', waitMs: 2 * LONG_TURN_MS },
  ]);
  assert.equal(logged, []);
});

test('the meter reports at most the time that one turn can have used', () => {
  const meter = new TurnMeter();
  assert.equal(
    [1_000, 1_090, 1_190, 1_540].map((ms) => meter.look(ms)),
    [0, 0, 0, 250],
  );
});

test.run();
