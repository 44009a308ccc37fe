import { isIPv6 } from 'node:net';
import { networkOf } from '@slipway/program';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { functionsAddress } from './network-address.js';

test('each project’s functions have their own network address, which is unreachable from outside', () => {
  const refs = ['shop', 'blog', 'a'.repeat(63)];
  const addresses = refs.map(functionsAddress);
  for (const address of addresses) assert.ok(isIPv6(address) && address.startsWith('fd'), address);
  assert.is(new Set(addresses.map(networkOf)).size, refs.length);
  assert.equal(addresses, refs.map(functionsAddress));
});

test.run();
