import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TokenBucket, TokenBuckets } from './token-bucket.js';

/** A clock that stands still until a test moves it. */
function clock() {
  let milliseconds = 0;
  const pass = (seconds: number) => {
    milliseconds += seconds * 1000;
  };
  return { now: () => milliseconds, pass };
}

test('a token bucket allows a burst, then its rate, and never has more tokens than the burst', () => {
  const { now, pass } = clock();
  const bucket = new TokenBucket({ burst: 10, perSecond: 2 }, now);
  assert.equal([bucket.take(4), bucket.take(6), bucket.take()], [0, 0, 0.5]);
  pass(0.5);
  assert.equal([bucket.take(), bucket.take(5)], [0, 2.5]);
  pass(3600);
  assert.is(bucket.tokens, 10);
});

test('a token bucket takes nothing when it has too few tokens', () => {
  const { now } = clock();
  const bucket = new TokenBucket({ burst: 3, perSecond: 1 }, now);
  assert.equal([bucket.take(4), bucket.wait(3), bucket.wait(5)], [1, 0, 2]);
  assert.equal([bucket.tryTake(4), bucket.tryTake(3), bucket.tryTake()], [false, true, false]);
});

test('a token bucket that is not refilled makes callers wait forever', () => {
  const bucket = new TokenBucket({ burst: 1, perSecond: 0 });
  assert.equal([bucket.take(), bucket.take(), bucket.wait(0)], [0, Infinity, 0]);
  assert.is(new TokenBucket({ burst: 0, perSecond: 0 }).take(), Infinity);
});

test('a charge of a token bucket leaves a debt up to the rate’s limit, which the refill reduces', () => {
  const { now, pass } = clock();
  const bucket = new TokenBucket({ burst: 10, perSecond: 10, mostDebt: 50 }, now);
  assert.equal([bucket.charge(10), bucket.charge(5), bucket.take()], [0, 0.5, 0.6]);
  assert.is(bucket.charge(1000), 5);
  assert.is(bucket.tokens, -50);
  pass(5);
  assert.equal([bucket.wait(0), bucket.tokens], [0, 0]);
  const unbounded = new TokenBucket({ burst: 0, perSecond: 1 }, now);
  assert.is(unbounded.charge(1000), 1000);
});

test('a token returned to a bucket can be taken again, and the bucket never exceeds the burst', () => {
  const { now } = clock();
  const bucket = new TokenBucket({ burst: 1, perSecond: 1 }, now);
  bucket.take();
  bucket.giveBack();
  assert.is(bucket.take(), 0);
  bucket.giveBack();
  bucket.giveBack();
  assert.is(bucket.tokens, 1);
});

test('a token bucket ignores a change of the system time', () => {
  const bucket = new TokenBucket({ burst: 1, perSecond: 1 / 60 });
  bucket.take();
  const { now } = Date;
  Date.now = () => now() + 3_600_000;
  try {
    assert.ok(bucket.take() > 0);
  } finally {
    Date.now = now;
  }
});

test('each key has a token bucket of its own', () => {
  const buckets = new TokenBuckets({ burst: 1, perSecond: 1 });
  assert.equal([buckets.of('a').take(), buckets.of('b').take()], [0, 0]);
  assert.ok(buckets.of('a').take() > 0);
});

test('a key whose rate changes keeps the remaining tokens of its bucket, up to the new burst', () => {
  const { now, pass } = clock();
  const buckets = new TokenBuckets({ burst: 10, perSecond: 1 }, 10, now);
  buckets.of('a').take(4);
  assert.is(buckets.of('a', { burst: 20, perSecond: 5 }).tokens, 6);
  pass(1);
  assert.is(buckets.of('a', { burst: 20, perSecond: 5 }).tokens, 11);
  assert.is(buckets.of('a', { burst: 3, perSecond: 5 }).tokens, 3);
  assert.is(buckets.of('b', { burst: 20, perSecond: 5 }).tokens, 20);
});

test('token buckets retain the most recently used keys, also rejected ones, up to twice their maximum', () => {
  const buckets = new TokenBuckets({ burst: 1, perSecond: 0 }, 100);
  const isNew = (key: string) => buckets.of(key).take() === 0;
  assert.ok(isNew('guesser'));
  for (let n = 0; n < 10_000; n++) {
    isNew(`flood ${n}`);
    if (n % 50 === 0) assert.not(isNew('guesser'), `forgotten after ${n} others`);
  }
  assert.not(isNew('flood 9999'));
  assert.not(isNew('flood 9905'));
  assert.ok(isNew('flood 9700'));
});

test.run();
