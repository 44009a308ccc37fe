import { isIPv6 } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { functionsAddress, networkOf } from './network-address.js';

test('an IPv6 network of 64 bits is one, however its addresses are written', () => {
  for (const [address, network] of [
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:0DB8:1::a', '2001:db8:1:0'],
    ['2001:db8::a:b:c', '2001:db8:0:0'],
    ['2001:db8::d:e:f', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['10.1.2.3', '10.1.2.3'],
  ] as const) {
    assert.is(networkOf(address), network, address);
  }
});

test('each project’s functions call from a network of their own, which nobody beyond this machine has', () => {
  const refs = ['shop', 'blog', 'a'.repeat(63)];
  const addresses = refs.map(functionsAddress);
  for (const address of addresses) assert.ok(isIPv6(address) && address.startsWith('fd'), address);
  assert.is(new Set(addresses.map(networkOf)).size, refs.length);
  assert.equal(addresses, refs.map(functionsAddress));
});

test.run();
