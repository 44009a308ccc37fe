import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networkOf } from './rate-limit.js';

for (const [address, network] of [
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:0DB8:1::a', '2001:db8:1:0'],
  ['2001:db8::a:b:c', '2001:db8:0:0'],
  ['2001:db8::', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['::FFFF:a01:203', '10.1.2.3'],
  ['10.1.2.3', '10.1.2.3'],
  ['', ''],
] as const) {
  test(`the network of ${address || 'nobody'} is ${network || 'none'}`, () => {
    assert.is(networkOf(address), network);
  });
}

test.run();
