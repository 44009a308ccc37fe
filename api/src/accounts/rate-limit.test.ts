import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networkOf, RateLimit } from './rate-limit.js';

for (const [address, network] of [
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1'],
  ['2001:0DB8:1::a', '2001:db8:1'],
  ['2001:db8::a:b:c', '2001:db8:0'],
  ['2001:db8::', '2001:db8:0'],
  ['::1', '0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['::FFFF:a01:203', '10.1.2.3'],
  ['10.1.2.3', '10.1.2.3'],
  ['', ''],
] as const) {
  test(`the network of ${address || 'nobody'} is ${network || 'none'}`, () => {
    assert.is(networkOf(address), network);
  });
}

test('a rate limit admits a burst, then one each interval, and counts a cost as that many', () => {
  const limit = new RateLimit(10, 60);
  assert.equal([limit.take('a', 4, 0), limit.take('a', 6, 0)], [0, 0]);
  assert.is(limit.take('a', 1, 0), 1);
  assert.is(limit.take('a', 5, 2_000), 3);
  assert.is(limit.take('a', 2, 2_000), 0);
  assert.is(limit.take('b', 10, 2_000), 0);
});

test('a rate limit keeps a bounded number of keys, those that were used last', () => {
  const limit = new RateLimit(1, 1, 2);
  for (const key of ['a', 'b', 'c']) assert.is(limit.take(key, 1, 0), 0);
  assert.is(limit.take('c', 1, 0) > 0, true);
  assert.is(limit.take('a', 1, 0), 0);
});

test('a rate limit is unmoved by a change of the wall clock', () => {
  const limit = new RateLimit(1, 1);
  limit.take('a');
  const { now } = Date;
  Date.now = () => now() + 3_600_000;
  try {
    assert.ok(limit.take('a') > 0);
  } finally {
    Date.now = now;
  }
});

test.run();
