/** Tests that the largest catalogues are loaded in short turns of the event loop. */

import { medianOfFive, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce, stepTimesOf } from '../../../testing/steps.js';
import { catalogueOf } from './load.js';
import { restSettings } from './settings.js';

const SETTINGS = restSettings({}, ['public']);
const lines = (rows: object[]) => Buffer.from(rows.map((row) => JSON.stringify(row)).join('\u001e'));

const column = (number: number) => ({
  name: `c${number}`,
  number,
  type: 'int4',
  base: 'int4',
  comment: 'x'.repeat(40),
});
const relation = (oid: number, columns: number, isView = false) => ({
  relations: {
    ...{ oid, schema: 'public', name: `t${oid}`, comment: null, isView },
    columns: Array.from({ length: columns }, (_, i) => column(i + 1)),
  },
});
const key = (kind: string, table: number, columns: number[], foreign: number | null = null, i = 0) => ({
  keys: {
    ...{ constraint: `k${table}_${i}`, kind, relation: table, columns, foreign },
    foreignColumns: foreign === null ? null : columns.map(() => 1),
  },
});
const computed = (i: number) => ({ computed: { schema: 'public', name: `t${i}`, table: 1, target: 2, single: true } });
const all = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i + 1));
const view = (oid: number) => ({
  views: { oid, definition: `{QUERY :targetList (${'{T :resno 1 :resorigtbl 1 :resorigcol 1} '.repeat(40)})}` },
});

/** Rule of a view whose columns are columns of `base`, as long as Postgres stores it. */
const ruleOf = (oid: number, columns: number, base: (i: number) => [relation: number, column: number]) => {
  const entries = all(columns, (i) => {
    const [relation, column] = base(i);
    const expression = `{VAR :varno 1 :varattno ${column} :vartype 23 :vartypmod -1 :varcollid 0 :varnullingrels (b)
      :varlevelsup 0 :varreturningtype 0 :varnosyn 1 :varattnosyn ${column} :location -1}`;
    return `{TARGETENTRY :expr ${expression} :resno ${i} :resname c${i} :ressortgroupref 0
      :resorigtbl ${relation} :resorigcol ${column} :resjunk false}`;
  });
  return { views: { oid, definition: `({QUERY :targetList (${entries.join(' ')})})` } };
};
const VIEW_COLUMNS = 1_200;
const EIGHT = all(8, (i) => 9 - i);

const LARGEST: Record<string, object[]> = {
  'tables and columns': [...all(30, (i) => relation(i, 1_600))],
  'foreign keys of one table': [
    relation(1, 1_600),
    relation(2, 1),
    key(
      'p',
      1,
      all(32, (i) => i),
    ),
    key('p', 2, [1]),
    ...all(9_000, (i) => key('f', 1, [(i % 32) + 1], 2, i)),
  ],
  'computed relationships': [relation(1, 1), relation(2, 1), ...all(10_000, computed)],
  'views of one table': [
    relation(1, 2),
    key('p', 1, [1]),
    ...all(3_000, (i) => relation(i + 1, 1, true)),
    ...all(3_000, (i) => view(i + 1)),
    ...all(1_000, (i) => key('f', 1, [1], 1, i)),
  ],
  'nested views': all(32, (v) => ruleOf(v, VIEW_COLUMNS, (i) => [v - 1, i])),
  'names of a key in a view': [
    relation(1, 8),
    relation(2, 8),
    ...all(6, (v) => relation(100 + v, VIEW_COLUMNS, true)),
    ...all(6, (v) => ruleOf(100 + v, VIEW_COLUMNS, (i) => [1 + (v % 2), 1 + (i % 8)])),
    { keys: { ...key('f', 1, EIGHT, 2).keys, foreignColumns: EIGHT } },
  ],
  'unique keys': all(30_000, (i) => key('u', 1, [...EIGHT, ...EIGHT, ...EIGHT, ...EIGHT], null, i)),
};

for (const [what, rows] of Object.entries(LARGEST)) {
  test(`a catalogue of very many ${what} takes at most ${TURN_MS} ms of processor time in one step`, () => {
    const text = lines(rows);
    const took = medianOfFive(() => Math.max(...stepTimesOf(catalogueOf(text, SETTINGS))));
    assert.ok(took <= TURN_MS, `took ${took} ms`);
  });
}

test('a function of a row replaces the relationship to the table with the function’s name', () => {
  const { tables } = atOnce(
    catalogueOf(
      lines([relation(1, 2), relation(2, 1), key('f', 1, [2], 2), { computed: { ...computed(2).computed } }]),
      SETTINGS,
    ),
  );
  const cardinalities = [...tables.values()].map(({ relationships }) =>
    relationships.map(({ cardinality }) => cardinality),
  );
  assert.equal(cardinalities, [['computed-one'], ['one-to-many']]);
});

test.run();
