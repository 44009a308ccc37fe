import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allDone } from './all-done.js';

test('allDone rejects with the first failure only after every promise has settled', async () => {
  const slow = Promise.withResolvers<string>();
  let told = false;
  const all = allDone([Promise.reject(new Error('first')), slow.promise]).catch((error: Error) => {
    told = true;
    return error.message;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.not(told);
  slow.resolve('done');
  assert.is(await all, 'first');
});

test('allDone resolves to the values in the order of the promises when none fails', async () => {
  assert.equal(await allDone([Promise.resolve(1), Promise.resolve('two')]), [1, 'two']);
});

test.run();
