import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogThrottle } from './log-throttle.js';

function throttle() {
  const reports: [number, string?][] = [];
  const lines = new LogThrottle((dropped, key) => void reports.push(key === undefined ? [dropped] : [dropped, key]));
  const flood = (times: number, keyOf: (n: number) => string) =>
    Array.from({ length: times }, (_, n) => lines.take(keyOf(n))).filter(Boolean).length;
  return { lines, reports, flood };
}

test('a key has ten log lines in a second, and the number of further lines is reported', () => {
  const { lines, reports, flood } = throttle();
  assert.is(
    flood(1000, () => 'loud'),
    10,
  );
  assert.ok(lines.take('quiet'));
  lines.close();
  assert.equal(reports, [[990, 'loud']]);
});

test('all keys together have a hundred log lines in a second, and one number reports further lines', () => {
  const { lines, reports, flood } = throttle();
  assert.is(
    flood(1000, (n) => `key ${n}`),
    100,
  );
  assert.not(lines.take('key 0'));
  lines.close();
  assert.equal(reports, [[1, 'key 0'], [900]]);
});

test('each second allows log lines again, and reports the dropped lines once', async () => {
  const { lines, reports, flood } = throttle();
  for (const second of [1, 2]) {
    assert.is(
      flood(120, (n) => (n < 20 ? 'loud' : `key ${n}`)),
      100,
    );
    for (const end = performance.now() + 10_000; reports.length < 2 * second && performance.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal([reports.length, reports.slice(-2)], [2 * second, [[10, 'loud'], [10]]]);
  }
  lines.close();
  assert.is(reports.length, 4);
});

test.run();
