/** Tests how often an attack of the siege is repeated. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { lowestOf } from './best-of.js';
import { newObservation, slowestRead } from './victim.js';

/** Returns the lowest of the results, and the number of tries. */
async function measured(results: number[], isOver = () => false): Promise<[lowest: number, tries: number]> {
  let tries = 0;
  const measure = async (attempt: number) => {
    assert.is(attempt, ++tries);
    return results[attempt - 1] as number;
  };
  return [await lowestOf(measure, { enough: 250, tries: 3, isOver }), tries];
}

test('a measurement is repeated at most twice, and the lowest result counts', async () => {
  assert.equal(await measured([250, 1, 1]), [250, 1]);
  assert.equal(await measured([300, 200, 1]), [200, 2]);
  assert.equal(await measured([300, 500, 400, 1]), [300, 3]);
});

test('a measurement is not repeated when its time is over', async () => {
  assert.equal(await measured([300, 1], () => true), [300, 1]);
});

test('the slowest read is that of all services, and writes do not count', () => {
  const rest = { ...newObservation('rest'), latencies: [10, 900], reads: [10] };
  const storage = { ...newObservation('storage'), latencies: [30, 20], reads: [30, 20] };
  assert.is(slowestRead([rest, storage, newObservation('realtime')]), 30);
});

test.run();
