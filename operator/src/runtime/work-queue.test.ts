import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { WorkQueue } from './work-queue.js';

const BACKOFF = { firstMs: 1, maxMs: 8 };

test('a key is taken once when it is added many times while it waits', async () => {
  const queue = new WorkQueue(BACKOFF);
  for (const key of ['a', 'b', 'a', 'a', 'b']) queue.add(key);
  assert.is(await queue.take(), 'a');
  assert.is(await queue.take(), 'b');
  queue.add('c');
  assert.is(await queue.take(), 'c');
  queue.close();
});

test('a key is taken again, after its work is done, when it is added during the work', async () => {
  const queue = new WorkQueue(BACKOFF);
  queue.add('a');
  assert.is(await queue.take(), 'a');
  queue.add('a');
  queue.add('b');
  assert.is(await queue.take(), 'b');
  queue.done('a');
  assert.is(await queue.take(), 'a');
  queue.close();
});

test('a key is never with two workers, and is taken once more after it was last added', async () => {
  const queue = new WorkQueue(BACKOFF);
  const added = new Map<string, number>();
  const worked = new Map<string, number>();
  const busy = new Set<string>();
  const worker = async () => {
    for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
      assert.not(busy.has(key), `${key} is with two workers`);
      busy.add(key);
      const seen = added.get(key) as number;
      await new Promise((resolve) => setImmediate(resolve));
      worked.set(key, seen);
      busy.delete(key);
      queue.done(key);
    }
  };
  const workers = Array.from({ length: 5 }, worker);
  for (let step = 1; step <= 3000; step++) {
    const key = `k${Math.floor(Math.random() * 20)}`;
    added.set(key, step);
    if (step % 3 === 0) queue.addAfter(key, Math.random() * 3);
    else queue.add(key);
    if (step % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  while ([...added].some(([key, step]) => worked.get(key) !== step))
    await new Promise((resolve) => setImmediate(resolve));
  queue.close();
  await Promise.all(workers);
});

test('the earlier of two delays for one key applies, and an add without a delay ends both', async () => {
  const queue = new WorkQueue(BACKOFF);
  queue.addAfter('a', 3_600_000);
  queue.addAfter('a', 1);
  queue.addAfter('a', 3_600_000);
  assert.is(await queue.take(), 'a');
  queue.done('a');
  queue.addAfter('b', 3_600_000);
  queue.add('b');
  assert.is(await queue.take(), 'b');
  queue.close();
});

test('failures in a row increase the delay up to a maximum, and a success resets the delay', () => {
  const queue = new WorkQueue({ firstMs: 100, maxMs: 1000 });
  const bounds = [100, 200, 400, 800, 1000, 1000];
  for (const bound of bounds) {
    const delay = queue.addFailed('a');
    assert.ok(delay >= bound / 2 && delay <= bound, `${delay} is between ${bound / 2} and ${bound}`);
  }
  queue.forget('a');
  assert.ok(queue.addFailed('a') <= 100);
  queue.close();
});

test('a closed queue returns no key, and ends every worker', async () => {
  const queue = new WorkQueue(BACKOFF);
  const waiting = [queue.take(), queue.take()];
  queue.addAfter('later', 1);
  queue.close();
  queue.add('a');
  assert.equal(await Promise.all([...waiting, queue.take()]), [undefined, undefined, undefined]);
});

test.run();
