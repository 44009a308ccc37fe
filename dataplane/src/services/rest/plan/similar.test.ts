/** Tests the names in hints of errors: their similarity, and the limited time for any schema. */
import { processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce } from '../../../testing/steps.js';
import { Catalogue, type FunctionRow } from '../catalogue/catalogue.js';
import { restSettings } from '../catalogue/settings.js';
import { planCall } from './call-plan.js';
import { closest } from './similar.js';

test('a hint has the name with the fewest edits, if it is similar enough', () => {
  const tables = ['authors', 'books', 'book_authors', 'größen', ''];
  assert.is(closest('boks', tables, 0.75), 'books');
  assert.is(closest('Book_Author', tables, 0.75), 'book_authors');
  assert.is(closest('grössen', tables, 0.7), 'größen');
  assert.is(closest('b', tables, 0.75), undefined);
  assert.is(closest('zzz', tables, 0.1), undefined);
  assert.is(closest('authors', [], 0), undefined);
});

const letters = (length: number, at: number) =>
  Array.from({ length }, (_, i) => 'abcdefghij'[(i * (at + 7) + at) % 10]).join('');
const NAMES: Record<string, string[]> = {
  '10,000 names of 63 letters': Array.from({ length: 10_000 }, (_, at) => letters(63, at)),
  '1,000 names that begin alike': Array.from({ length: 1_000 }, (_, at) => letters(32, 0) + letters(31, at)),
  '1,000 lists of a hundred parameters': Array.from({ length: 1_000 }, (_, at) => letters(6_500, at)),
};

for (const [what, names] of Object.entries(NAMES)) {
  test(`${what} take at most ${TURN_MS} ms of processor time`, () => {
    const took = processorTimeOf(() => closest(letters(63, 0), names, 0.33));
    assert.ok(took <= TURN_MS, `took ${took} ms`);
  });
}

const parameter = (at: number, i: number) => ({
  name: i < 99 ? `p${i}` : `of_${at}`,
  type: 'text',
  required: i === 99,
  variadic: false,
});
const overload = (at: number): FunctionRow => ({
  schema: 'public',
  name: 'f',
  comment: null,
  volatility: 'v',
  parameters: Array.from({ length: 100 }, (_, i) => parameter(at, i)),
  returns: 'scalar',
  returnsSet: false,
  returnsTable: null,
  media: null,
  timeoutMs: null,
});

const called = (names: string[]) => ({ schema: 'public', name: 'f', names, bodyType: 'json' as const });

test(`3,000 functions of one name, each with 100 parameters, take at most ${TURN_MS} ms of processor time`, () => {
  const functions = Array.from({ length: 3_000 }, (_, at) => overload(at));
  const rows = { relations: [], keys: [], views: [], functions, computed: [], handlers: [], comments: {} };
  const catalogue = atOnce(Catalogue.of(rows, restSettings({}, ['public']), 0));
  const names = [...Array.from({ length: 99 }, (_, i) => `p${i}`), 'of_2999'];
  assert.is(planCall(catalogue, called(names)).routine, functions[2_999]);
  const took = processorTimeOf(() => assert.throws(() => planCall(catalogue, called([...names, 'x']))));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
