import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isLoopback, networkOf } from './networks.js';

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
  ['not:an:address', 'not:an:address'],
] as const) {
  test(`the network of ${address || 'no address'} is ${network || 'empty'}`, () => {
    assert.is(networkOf(address), network);
  });
}

test('only addresses of this machine are loopback', () => {
  for (const address of ['127.0.0.1', '127.255.0.9', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', '::ffff:7f00:1'])
    assert.ok(isLoopback(address), address);
  for (const address of ['', 'localhost', '128.0.0.1', '0.0.0.0', '::', '::2', '::ffff:128.0.0.1', '127.0.0.1.nip.io'])
    assert.not.ok(isLoopback(address), address);
});

test.run();
