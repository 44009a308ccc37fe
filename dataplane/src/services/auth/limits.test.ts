import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Context } from './context.js';
import { Limits } from './policy/limits.js';

test('a caller that fills the memory of one project’s limits does not evict those of another', () => {
  const limits = new Limits();
  const of = (ref: string) => ({ request: { tenant: { ref } } }) as Context;
  for (let guess = 0; guess < 20; guess++) limits.codeGuess(of('victim'), 'somebody');
  for (let n = 0; n < 50_000; n++) limits.codeGuess(of('flood'), String(n));
  assert.throws(() => limits.codeGuess(of('victim'), 'somebody'));
});

test.run();
