import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FairQueue, QueueFull } from './fair-queue.js';

const LIMITS = { atOnce: 2, atOnceOfOne: 1, waiting: 100, waitingOfOne: 10 };
const tick = () => new Promise((resolve) => setImmediate(resolve));

test('projects take turns: one with much to do holds up no other', async () => {
  const queue = new FairQueue({ ...LIMITS, atOnce: 1 });
  const done: string[] = [];
  const work = (ref: string) =>
    queue.run(ref, async () => {
      await tick();
      done.push(ref);
    });
  await Promise.all([...Array.from({ length: 8 }, () => work('a')), work('b'), work('c'), work('b')]);
  assert.equal(done.slice(0, 6).join(''), 'aabcab');
  assert.is(done.length, 11);
});

test('so much runs at once, of one and of all, and what fails makes room too', async () => {
  const queue = new FairQueue(LIMITS);
  let [running, most] = [0, 0];
  const ofOne = new Map<string, number>();
  const work = (ref: string) =>
    queue
      .run(ref, async () => {
        running++;
        ofOne.set(ref, (ofOne.get(ref) ?? 0) + 1);
        most = Math.max(most, running);
        assert.is(ofOne.get(ref), 1);
        await tick();
        running--;
        ofOne.set(ref, 0);
        throw new Error('it failed');
      })
      .catch((error: Error) => assert.is(error.message, 'it failed'));
  await Promise.all(['a', 'a', 'b', 'c', 'b', 'a', 'c'].map(work));
  assert.is(most, 2);
});

test('what waits is bounded for each, and others may wait still', async () => {
  const queue = new FairQueue(LIMITS);
  let end: () => void = () => undefined;
  const until = new Promise<void>((resolve) => {
    end = resolve;
  });
  const outcomes = Array.from({ length: 12 }, () => queue.run('a', () => until).catch((error) => error));
  const other = queue.run('b', () => until);
  assert.instance(await outcomes[11], QueueFull);
  assert.is(queue.waiting, 10);
  end();
  await Promise.all([...outcomes, other]);
  assert.is(queue.waiting, 0);
});

test('projects that fill the queue keep no other out', async () => {
  const queue = new FairQueue({ ...LIMITS, waiting: 20 });
  const held = Promise.withResolvers<void>();
  const ask = (ref: string) => queue.run(ref, () => held.promise).catch((error) => error);
  const outcomes = ['a', 'b', 'c', 'd'].flatMap((ref) => Array.from({ length: 11 }, () => ask(ref)));
  assert.ok(queue.waiting >= 20);
  const first = ask('late');
  assert.instance(await ask('late'), QueueFull);
  held.resolve();
  assert.is(await first, undefined);
  await Promise.all(outcomes);
});

test.run();
