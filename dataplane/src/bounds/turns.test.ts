/** Tests that work on large inputs yields the event loop between its steps. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inTurns, type Steps } from './turns.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

function* steps(count: number, note: () => void): Steps<string> {
  for (let i = 0; i < count; i++) {
    note();
    yield;
  }
  return 'done';
}

test('work that has only one step runs synchronously', async () => {
  assert.is(await inTurns('a', steps(0, assert.unreachable)), 'done');
});

test('other work of the event loop runs between the turns of a long job', async () => {
  let ticks = 0;
  const untilOthersRan = function* (): Steps<void> {
    for (let i = 0; ticks < 3; i++) {
      assert.ok(i < 10_000_000, 'nothing else ran');
      yield;
    }
  };
  const job = inTurns('a', untilOthersRan());
  for (; ticks < 3; ticks++) await tick();
  await job;
});

test('jobs of several projects run one after another, and an error ends only its own job', async () => {
  const seen: string[] = [];
  const failing = function* (): Steps<void> {
    yield;
    throw new Error('broken');
  };
  const results = await Promise.allSettled([
    inTurns(
      'a',
      steps(3, () => seen.push('a')),
    ),
    inTurns('b', failing()),
    inTurns(
      'c',
      steps(3, () => seen.push('c')),
    ),
  ]);
  assert.equal(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.is(seen.join(''), 'acaacc');
});

test.run();
