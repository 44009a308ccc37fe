import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Contestant, interleave, median, percentile, ratioOf } from './rounds.js';

const plan = { connections: 1, rounds: 3, seconds: 1, warmUpSeconds: 1 };

function contestant(name: string, rates: number[], order: string[] = []): Contestant {
  const left = [...rates];
  return {
    name,
    run: async () => {
      order.push(name);
      const perSecond = left.shift() ?? 0;
      return { requests: perSecond, perSecond, failures: 0, firstFailure: '' };
    },
  };
}

test('contestants of a bench take turns after each has warmed up', async () => {
  const order: string[] = [];
  await interleave([contestant('a', [1, 1, 1, 1], order), contestant('b', [1, 1, 1, 1], order)], plan);
  assert.is(order.join(''), 'abababab');
});

test('a ratio is the median of the rounds’ ratios without the warm-up', async () => {
  const measured = await interleave([contestant('a', [9, 10, 30, 20]), contestant('b', [1, 10, 10, 10])], plan);
  const { ratio, met } = ratioOf(measured, 'a', 'b', 2);
  assert.equal(ratio, { median: 2, lowest: 1, highest: 3 });
  assert.is(met, true);
});

test('a wrong response fails the bench and is reported', async () => {
  const failing: Contestant = {
    name: 'a',
    run: async () => ({ requests: 0, perSecond: 0, failures: 2, firstFailure: '500 oh' }),
  };
  try {
    await interleave([failing], plan);
    assert.unreachable();
  } catch (error) {
    assert.match((error as Error).message, 'a: 2 wrong answers, the first: 500 oh');
  }
});

test('a percentile between two values is interpolated', () => {
  assert.is(median([3, 1, 2]), 2);
  assert.is(median([4, 1, 2, 3]), 2.5);
  assert.is(percentile([0, 10], 0.95), 9.5);
});

test.run();
