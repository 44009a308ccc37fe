/** Tests limits on rows of storage and auth that a project's owner wrote by SQL. */

import { medianOfFive, processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Steps } from '../../bounds/turns.js';
import { atOnce, stepTimesOf } from '../../testing/steps.js';
import { AuthError } from '../auth/errors.js';
import { jsonRows } from '../auth/sessions/session.js';
import { decodedRows } from './database.js';
import { StorageError } from './errors.js';

const MIB = 1024 * 1024;
/** Decodes all rows in steps. */
function* decoded(text: Buffer): Steps<unknown[]> {
  const rows: unknown[] = [];
  yield* decodedRows(text, (row) => rows.push(row));
  return rows;
}

const joined = (rows: string[]) => Buffer.from(rows.join('\u001e'));

test('rows are decoded one by one', () => {
  assert.equal(atOnce(decoded(joined([]))), []);
  assert.equal(atOnce(decoded(joined(['{"a":"x,\\n"}', '{"a":[1]}']))), [{ a: 'x,\n' }, { a: [1] }]);
});

for (const [what, row] of [
  ['nests deep', `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`],
  ['holds very many values', `{"a":[${'{},'.repeat(40_000)}1]}`],
  ['is larger than 1.125 MiB', `{"a":"${'x'.repeat(2 * MIB)}"}`],
] as const) {
  test(`a row that ${what} causes an error of storage and of auth`, () => {
    assert.throws(
      () => atOnce(decoded(joined(['{}', row]))),
      (error: unknown) => error instanceof StorageError && /can't be read: the JSON/.test(error.message),
    );
    assert.throws(
      () => jsonRows({ command: '', fields: [], rows: [[Buffer.from(row)]] }),
      (error: unknown) => error instanceof AuthError && error.status === 500,
    );
  });
}

test('rows of more than 400,000 values are rejected', () => {
  const rows = joined(Array.from({ length: 8_000 }, () => `{"list":[${'{},'.repeat(330)}1]}`));
  assert.throws(() => atOnce(decoded(rows)), /more than 400000 values/);
});

test(`8 MiB of rows take at most ${TURN_MS} ms of processor time in one step`, () => {
  const rows = joined(
    Array.from({ length: 8_000 }, (_, i) => `{"k${i}":{},"list":["${'x'.repeat(900)}",${'{},'.repeat(20)}1]}`),
  );
  const took = medianOfFive(() => Math.max(...stepTimesOf(decoded(rows))));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test(`a user of 64 MiB takes at most ${TURN_MS} ms of processor time`, () => {
  const rows = [[Buffer.from(`[${'{"a":[]},'.repeat(7_000_000)}1]`)]];
  const took = processorTimeOf(() => assert.throws(() => jsonRows({ command: '', fields: [], rows })));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
