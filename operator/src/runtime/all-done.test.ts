import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allDone } from './all-done.js';

test('the first failure is told only when nothing goes on any more', async () => {
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

test('without a failure all that they resolved to is there, in their order', async () => {
  assert.equal(await allDone([Promise.resolve(1), Promise.resolve('two')]), [1, 'two']);
});

test.run();
