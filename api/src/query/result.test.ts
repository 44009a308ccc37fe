/** Tests that results of queries are equal as JSON and as values, and are made in short turns of the event loop. */
import { longestTurnDuring } from '@slipway/program/decoders.testing.js';
import { TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { StatementOutcome } from '../sql/bounded-query.js';
import { lastResult, resultJson } from './result.js';

const [INT4, TEXT, NUMERIC, TIMESTAMPTZ, JSONB, JSONB_ARRAY, INT4_ARRAY] = [23, 25, 1700, 1184, 3802, 3807, 1007];

function statement(oids: number[], rows: (string | null)[][]): StatementOutcome {
  const fields = oids.map((dataTypeID, at) => ({ name: `c${at}`, dataTypeID }));
  return { fields, rows, command: 'SELECT', count: rows.length, truncated: false };
}
const outcome = (...statements: StatementOutcome[]) => ({ statements, typeNames: new Map<number, string>() });
const decoded = async (of: Parameters<typeof resultJson>[0]) =>
  JSON.parse(Buffer.concat(await resultJson(of, 1.234)).toString());

test('the JSON of a result equals its values', async () => {
  const long = `${'x'.repeat(32 * 1024 - 1)}😀"\n${'é'.repeat(40_000)}`;
  const of = outcome(
    statement([INT4], [['1'], [null]]),
    statement(
      [INT4, TEXT, NUMERIC, JSONB, JSONB_ARRAY, INT4_ARRAY],
      [
        ['1', 'a"b', '1.5', '{"a": [1]}', '{"{\\"b\\":1}",NULL}', '{{1,2},{3,4}}'],
        [null, long, '12345678901234567890', `"${'x'.repeat(1_100_000)}"`, null, `{${'1,'.repeat(70_000)}1}`],
      ],
    ),
  );
  const { results, duration_ms, ...last } = await decoded(of);
  assert.equal(last, await lastResult(of));
  assert.equal([results.length, results[1], duration_ms], [2, last, 1.23]);
  assert.equal(results[0].rows, [{ c0: 1 }, { c0: null }]);
  assert.equal(Object.values(last.rows[0]), [
    1,
    'a"b',
    1.5,
    { a: [1] },
    [{ b: 1 }, null],
    [
      [1, 2],
      [3, 4],
    ],
  ]);
  assert.equal(last.rows[1].c1, long);
  // Too large for one turn: stays text.
  assert.type(last.rows[1].c3, 'string');
  assert.type(last.rows[1].c5, 'string');
});

test('numbers within JSON are exact, as JSON and as values', async () => {
  const json = '{"n":9007199254740993,"x":[1.00000000000000000001]}';
  const array = `{"${json.replaceAll('"', '\\"')}"}`;
  const of = outcome(statement([JSONB, JSONB_ARRAY], [[json, array]]));
  const row = `{"c0":${json},"c1":[${json}]}`;
  assert.ok(
    Buffer.concat(await resultJson(of, 1))
      .toString()
      .includes(`"rows":[${row}]`),
  );
  assert.is(JSON.stringify((await lastResult(of)).rows), `[${row}]`);
});

test('SQL without a statement has an empty result', async () => {
  const { results, duration_ms: _, ...last } = await decoded(outcome());
  assert.equal([results, last], [[], await lastResult(outcome())]);
});

test('columns with equal, numeric or __proto__ names are members of the row', async () => {
  const of = outcome({
    ...statement([INT4, INT4, INT4, INT4], [['1', '2', '3', '4']]),
    fields: ['a', 'a', '0', '__proto__'].map((name) => ({ name, dataTypeID: INT4 })),
  });
  const text = Buffer.concat(await resultJson(of, 0)).toString();
  assert.match(text, /"rows":\[\{"a":1,"a_2":2,"0":3,"__proto__":4\}\]/);
});

const filled = (rows: number, columns: number, cell: string) =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, () => cell));
const objects = `[${Array.from({ length: 900 }, (_, i) => `{"k${i}":1}`).join(',')}]`;
const LARGEST: Record<string, StatementOutcome> = {
  integers: statement(Array(1_000).fill(INT4), filled(250, 1_000, '1')),
  numerics: statement(Array(700).fill(NUMERIC), filled(250, 700, '1.5')),
  times: statement(Array(300).fill(TIMESTAMPTZ), filled(250, 300, '2020-01-01 00:00:00+00')),
  'JSON of many shapes': statement([JSONB], filled(200, 1, objects)),
  'JSON of a megabyte': statement([JSONB], filled(2, 1, `"${'\\u0001'.repeat(170_000)}"`)),
  'arrays of JSON': statement([JSONB_ARRAY], filled(125, 1, `{${'"{}",'.repeat(3_200)}"{}"}`)),
  'arrays of integers': statement([INT4_ARRAY], filled(30, 1, `{${'1,'.repeat(32_000)}1}`)),
  'JSON that stays text': statement([JSONB], filled(1, 1, `[${'12345678901234,'.repeat(140_000)}1]`)),
  'long numbers of JSON': statement([JSONB], filled(1, 1, `"${'123456789012345,'.repeat(62_000)}"`)),
  'control characters': statement([TEXT], filled(1, 1, '\u0001'.repeat(2_000_000))),
};

for (const [what, of] of Object.entries(LARGEST)) {
  test(`2 MiB of ${what} take at most ${TURN_MS} ms of processor time in one turn`, async () => {
    const toJson = await longestTurnDuring(() => resultJson(outcome(of), 0));
    const toValues = await longestTurnDuring(() => lastResult(outcome(of)));
    assert.ok(Math.max(toJson, toValues) <= TURN_MS, `${toJson} ms and ${toValues} ms`);
  });
}

test(`results of 60,000 statements take at most ${TURN_MS} ms of processor time in one turn`, async () => {
  const many = Array.from({ length: 60_000 }, () => statement([INT4], [['1']]));
  const took = await longestTurnDuring(() => resultJson(outcome(...many), 0));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
