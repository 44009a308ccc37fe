import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { backoffMs } from './backoff.js';

test('each failure doubles the wait, up to a bound, spread so that programs do not start in step', () => {
  assert.equal(
    [1, 2, 3, 4].map((failures) => backoffMs(failures, 1)),
    [250, 500, 1000, 2000],
  );
  assert.is(backoffMs(1000, 1), 15_000);
  assert.is(backoffMs(1, 0), 125);
});

test.run();
