import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { delayOf } from './backoff.js';

const BACKOFF = { firstMs: 250, maxMs: 15_000 };

test('each attempt doubles the delay of a backoff, up to a maximum', () => {
  const delays = [1, 2, 3, 4, 7, 1000].map((attempt) => delayOf(BACKOFF, attempt, () => 1));
  assert.equal(delays, [250, 500, 1000, 2000, 15_000, 15_000]);
});

test('half of a backoff’s delay is random, unless its jitter is set', () => {
  const range = (jitter?: number) =>
    [0, 1].map((random) => delayOf({ ...BACKOFF, ...(jitter !== undefined && { jitter }) }, 3, () => random));
  assert.equal(range(), [500, 1000]);
  assert.equal(range(0), [1000, 1000]);
  assert.equal(range(0.4), [600, 1000]);
  const delays = new Set(Array.from({ length: 100 }, () => delayOf(BACKOFF, 3)));
  assert.ok(delays.size > 10, 'without a source of chance of the caller it is random too');
});

test.run();
