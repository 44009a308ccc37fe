import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ConcurrencyBounds, ConcurrencyLimit, ConcurrencyLimitReached } from './concurrency-limit.js';

/** Jobs that each end when the test says so. */
function begun(bounds: ConcurrencyBounds) {
  const limit = new ConcurrencyLimit(bounds, (reached, key) => new Error(`${reached} ${key}`));
  const running: { name: string; end: PromiseWithResolvers<void> }[] = [];
  const run = (name: string, signal?: AbortSignal): Promise<string> => {
    const work = async () => {
      const end = Promise.withResolvers<void>();
      running.push({ name, end });
      await end.promise;
      return 'done';
    };
    return limit.run(name.charAt(0), work, signal).catch((error: Error) => error.message);
  };
  const names = () => running.map(({ name }) => name).join(' ');
  const next = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (name: string) => {
    const at = running.findIndex((each) => each.name === name);
    running.splice(at, 1)[0]?.end.resolve();
    await next();
  };
  const endAll = async () => {
    while (running.length > 0) await end((running[0] as { name: string }).name);
  };
  return { limit, run, names, end, endAll };
}

test('work starts at once if a place is free, and is otherwise rejected by a limit without a queue', async () => {
  const { limit, run, names, end, endAll } = begun({ most: 2 });
  const first = run('a1');
  void run('b1');
  assert.is(names(), 'a1 b1');
  assert.is(await run('c1'), 'all c');
  assert.ok(limit.isFull('c'));
  await end('a1');
  assert.is(await first, 'done');
  assert.not(limit.isFull('c'));
  void run('c2');
  assert.is(names(), 'b1 c2');
  await endAll();
});

test('work of one key is rejected at the key’s own limit, and work of other keys is not', async () => {
  const { limit, run, names, endAll } = begun({ most: 3, ofOne: 1 });
  void run('a1');
  assert.is(await run('a2'), 'key a');
  assert.equal([limit.isFull('a'), limit.isFull('b')], [true, false]);
  void run('b1');
  void run('c1');
  assert.is(names(), 'a1 b1 c1');
  assert.is(await run('a3'), 'key a');
  assert.is(await run('d1'), 'all d');
  await endAll();
});

test('a key gets at most its share of the free places of a limit', async () => {
  const { run, names, endAll } = begun({ most: 8, perFree: 1 / 4 });
  void run('a1');
  void run('a2');
  assert.is(await run('a3'), 'key a');
  void run('b1');
  assert.is(names(), 'a1 a2 b1');
  await endAll();
});

test('work that fails frees its place, and its caller gets the error', async () => {
  const limit = new ConcurrencyLimit({ most: 1, waiting: 1 });
  const failed = limit.run('a', () => Promise.reject(new Error('it failed')));
  const next = limit.run('a', async () => 'done');
  assert.is(await failed.catch(({ message }) => message), 'it failed');
  assert.is(await next, 'done');
  assert.is(limit.running, 0);
});

test('a limit without its own error rejects with ConcurrencyLimitReached', async () => {
  const limit = new ConcurrencyLimit({ most: 0 });
  assert.instance(await limit.run('a', async () => 'done').catch((error) => error), ConcurrencyLimitReached);
});

test('waiting work of one key starts in the order of its arrival', async () => {
  const { run, names, end, endAll } = begun({ most: 1, waiting: 10 });
  for (const name of ['a1', 'a2', 'a3']) void run(name);
  for (const name of ['a1', 'a2', 'a3']) {
    assert.is(names(), name);
    await end(name);
  }
  await endAll();
});

test('keys take turns, so that a key with much work does not delay other keys', async () => {
  const { run, names, end } = begun({ most: 1, waiting: 20 });
  for (let n = 1; n <= 6; n++) void run(`a${n}`);
  for (const name of ['b1', 'c1', 'b2']) void run(name);
  const order: string[] = [];
  for (let name = names(); name !== ''; name = names()) {
    order.push(name);
    await end(name);
  }
  assert.is(order.join(' '), 'a1 a2 b1 c1 a3 b2 a4 a5 a6');
});

test('the next work is of the key with the least running work', async () => {
  const { run, names, end, endAll } = begun({ most: 3, waiting: 10 });
  for (const name of ['a1', 'a2', 'b1', 'a3', 'b2', 'c1']) void run(name);
  await end('a1');
  assert.is(names(), 'a2 b1 c1');
  await end('c1');
  assert.is(names(), 'a2 b1 a3');
  await end('a3');
  assert.is(names(), 'a2 b1 b2');
  await endAll();
});

test('waiting work of a key at its own limit does not delay other keys', async () => {
  const { run, names, end, endAll } = begun({ most: 2, ofOne: 1, waiting: 10 });
  for (const name of ['a1', 'a2', 'b1', 'c1']) void run(name);
  assert.is(names(), 'a1 b1');
  await end('b1');
  assert.is(names(), 'a1 c1');
  await end('c1');
  assert.is(names(), 'a1');
  void run('c2');
  assert.is(names(), 'a1 c2');
  await end('a1');
  assert.is(names(), 'c2 a2');
  await endAll();
});

test('ConcurrencyLimit bounds the waiting jobs of one key and of all', async () => {
  const { limit, run, endAll } = begun({ most: 1, waiting: 3, waitingOfOne: 2 });
  for (const name of ['a1', 'a2', 'a3']) void run(name);
  assert.ok(limit.isFull('a'));
  assert.is(await run('a4'), 'all a');
  void run('b1');
  assert.is(limit.waiting, 3);
  assert.is(await run('c1'), 'all c');
  await endAll();
  assert.equal([limit.running, limit.waiting], [0, 0]);
});

test('the first work of a key may wait even if other keys fill the queue', async () => {
  const { run, names, endAll } = begun({ most: 1, waiting: 2, waitingOfOne: 2, firstMayWait: true });
  for (const name of ['a1', 'a2', 'a3']) void run(name);
  void run('b1');
  assert.is(await run('b2'), 'all b');
  assert.is(names(), 'a1');
  await endAll();
});

test('work that is cancelled while it waits never starts, and frees its place in the queue', async () => {
  const { limit, run, names, end, endAll } = begun({ most: 1, waiting: 2 });
  void run('a1');
  const control = new AbortController();
  const givenUp = [run('b1', control.signal), run('b2', control.signal)];
  assert.ok(limit.isFull('c'));
  control.abort(new Error('the client left'));
  assert.equal(await Promise.all(givenUp), ['the client left', 'the client left']);
  assert.is(await run('b3', control.signal), 'the client left');
  assert.is(limit.waiting, 0);
  void run('c1');
  await end('a1');
  assert.is(names(), 'c1');
  await endAll();
});

test('work that is cancelled as its turn comes never starts', async () => {
  const { limit, run, names, end } = begun({ most: 1, waiting: 1 });
  void run('a1');
  const control = new AbortController();
  const second = run('a2', control.signal);
  const ended = end('a1');
  // It is a2's turn once a1 has ended, a few microtasks from now; the work starts some microtasks later.
  while (limit.waiting > 0) await Promise.resolve();
  control.abort(new Error('the client left'));
  await ended;
  assert.equal([await second, names(), limit.running], ['the client left', '', 0]);
});

test('a signal that aborts during the work has no effect', async () => {
  const { run, names, end, endAll } = begun({ most: 1, waiting: 2 });
  const control = new AbortController();
  void run('a1');
  const second = run('a2', control.signal);
  void run('a3');
  await end('a1');
  control.abort(new Error('the client left'));
  assert.is(names(), 'a2');
  await end('a2');
  assert.equal([await second, names()], ['done', 'a3']);
  await endAll();
});

test('a limit is idle once all running and waiting work has ended', async () => {
  const { limit, run, end } = begun({ most: 1, waiting: 1 });
  await limit.idle();
  void run('a1');
  void run('a2');
  let isIdle = false;
  const idle = limit.idle().then(() => {
    isIdle = true;
  });
  await end('a1');
  assert.not(isIdle);
  await end('a2');
  await idle;
});

test.run();
