import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { until } from './until.js';

test('until returns the first truthy result', async () => {
  const results = [undefined, false, 0, '', 'found', 'late'];
  assert.is(await until(() => results.shift(), 'a result'), 'found');
  assert.equal(results, ['late']);
});

test('until throws an error that names the condition when its timeout ends', async () => {
  const begin = performance.now();
  const error = await until(() => false, 'the moon', 100).catch((reason: Error) => reason);
  assert.ok(error instanceof Error && error.message === 'after 0.1 s still not: the moon');
  assert.ok(performance.now() - begin >= 100);
});

test('until returns the first result that the predicate accepts', async () => {
  const results = [3, 2, 1, 0];
  assert.is(
    await until(
      () => results.shift() as number,
      (found) => found < 1,
    ),
    0,
  );
});

test('until throws an error that shows the last result when no result is accepted', async () => {
  const error = await until(
    () => ({ status: 503 }),
    ({ status }) => status === 200,
    50,
  ).catch((reason: Error) => reason);
  assert.is((error as Error).message, 'after 0.05 s still this: {"status":503}');
});

test('until rejects when the polled function rejects', async () => {
  const error = await until(() => Promise.reject(new Error('no route')), 'a host').catch((reason: Error) => reason);
  assert.is((error as Error).message, 'no route');
});

test.run();
