import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Context } from './context.js';
import { Limits } from './limits.js';
import { networkOf } from './rate-limit.js';

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

test('whoever fills the memory of one project’s limits has no other project’s forgotten', () => {
  const limits = new Limits();
  const of = (ref: string) => ({ request: { tenant: { ref } } }) as Context;
  for (let guess = 0; guess < 20; guess++) limits.codeGuess(of('victim'), 'somebody');
  for (let n = 0; n < 50_000; n++) limits.codeGuess(of('flood'), String(n));
  assert.throws(() => limits.codeGuess(of('victim'), 'somebody'));
});

test.run();
