import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RestError } from '../errors.js';
import { parseQueryString, splitQuery } from './query-string.js';
import { valueStart } from './shape.js';

const test = suite('query string');
const parse = (query: string, isCall = false) => parseQueryString(splitQuery(query), isCall);

const column = (name: string, rest: object = {}) => ({
  kind: 'field',
  field: { name, path: [] },
  alias: undefined,
  cast: undefined,
  aggregate: undefined,
  ...rest,
});
const embed = (relation: string, select: object[], rest: object = {}) => ({
  kind: 'embed',
  relation,
  alias: undefined,
  hint: undefined,
  join: 'left',
  spread: false,
  select,
  ...rest,
});

const SELECTS: [text: string, items: object[]][] = [
  ['*', [column('*')]],
  ['a, b', [column('a'), column('b')]],
  ['x:a::text', [column('a', { alias: 'x', cast: 'text' })]],
  ['"a,b":"c.d"', [column('c.d', { alias: 'a,b' })]],
  ['with-dash,with space', [column('with-dash'), column('with space')]],
  [
    'd->0->>k',
    [
      column('d', {
        field: {
          name: 'd',
          path: [
            { arrow: '->', key: '0', isIndex: true },
            { arrow: '->>', key: 'k', isIndex: false },
          ],
        },
      }),
    ],
  ],
  ['r(*)', [embed('r', [column('*')])]],
  [
    'x:r!h!inner(a,s(b))',
    [embed('r', [column('a'), embed('s', [column('b')])], { alias: 'x', hint: 'h', join: 'inner' })],
  ],
  ['...r(a)', [embed('r', [column('a')], { spread: true })]],
  ['r()', [embed('r', [])]],
];
for (const [text, items] of SELECTS) {
  test(`select=${text} is parsed`, () => assert.equal(parse(`select=${encodeURIComponent(text)}`).select, items));
}

const slot = (start: number) => ({ parameter: 0, start });
const OPERATIONS: [value: string, negated: boolean, operation: object][] = [
  ['eq.1', false, { kind: 'compare', operator: 'eq', quantifier: undefined, value: { text: '1', slot: slot(3) } }],
  [
    'not.like(any).{a*,b}',
    true,
    { kind: 'compare', operator: 'like', quantifier: 'any', value: { text: '{a*,b}', slot: slot(14) } },
  ],
  [
    'eq.a.b=c',
    false,
    { kind: 'compare', operator: 'eq', quantifier: undefined, value: { text: 'a.b=c', slot: slot(3) } },
  ],
  ['in.(1,"a,\\"b",)', false, { kind: 'in', values: ['1', 'a,"b', ''] }],
  ['in.()', false, { kind: 'in', values: [] }],
  ['is.NULL', false, { kind: 'is', value: 'null' }],
  ['not.is.true', true, { kind: 'is', value: 'true' }],
  [
    'wfts(english).x y',
    false,
    { kind: 'search', operator: 'wfts', language: 'english', value: { text: 'x y', slot: slot(14) } },
  ],
];
for (const [value, negated, operation] of OPERATIONS) {
  test(`a filter of ${value} is parsed`, () => {
    const [condition] = parse(`col=${encodeURIComponent(value)}`).conditions;
    assert.equal(condition, {
      path: [],
      value: { kind: 'filter', field: { name: 'col', path: [] }, negated, operation },
    });
  });
}

test('logic trees can be nested, negated and quoted', () => {
  const [or] = parse('posts.not.or=(a.eq.1,not.and(b.not.in.(1,2),c.eq."x,)y"))').conditions;
  assert.equal(or?.path, ['posts']);
  const tree = or?.value as { negated: boolean; members: { kind: string; negated: boolean; members: unknown[] }[] };
  assert.is(tree.negated, true);
  assert.is(tree.members[1]?.negated, true);
  assert.equal(tree.members[1]?.members[1], {
    kind: 'filter',
    field: { name: 'c', path: [] },
    negated: false,
    operation: { kind: 'compare', operator: 'eq', quantifier: undefined, value: { text: 'x,)y', slot: undefined } },
  });
});

test('order, limits and filters of embedded resources keep their path', () => {
  const query = parse('a.b.order=x.desc.nullslast,c(y)&a.limit=3&a.offset=2&a.b.c=eq.1');
  assert.equal(query.order[0]?.path, ['a', 'b']);
  assert.equal(
    query.order[0]?.value.map(({ relation, direction, nulls }) => [relation, direction, nulls]),
    [
      [undefined, 'desc', 'last'],
      ['c', undefined, undefined],
    ],
  );
  assert.equal(query.limits, [{ path: ['a'], value: { limit: 3, offset: 2 } }]);
  assert.equal(query.conditions[0]?.path, ['a', 'b']);
});

test('values without an operator are arguments in the query string of a function', () => {
  const query = parse('a=1&b=eq.2&c=in the&d=not', true);
  assert.equal(
    query.parameters.map(({ name }) => name),
    ['a', 'c', 'd'],
  );
  assert.is(query.conditions.length, 1);
});

const MISTAKES: [query: string, message: string, details: string][] = [
  [
    'a=noop.0',
    '"failed to parse filter (noop.0)" (line 1, column 1)',
    'unexpected "n" expecting "not" or operator (eq, gt, ...)',
  ],
  [
    'a=is.what',
    '"failed to parse filter (is.what)" (line 1, column 4)',
    'unexpected "w" expecting null or trilean value (unknown, true, false)',
  ],
  ['a=in.(1', '"failed to parse filter (in.(1)" (line 1, column 6)', 'unexpected end of input expecting ")"'],
  ['select=a(', '"failed to parse select parameter (a()" (line 1, column 3)', 'unexpected end of input expecting ")"'],
  [
    'order=id.ac',
    '"failed to parse order (id.ac)" (line 1, column 4)',
    'unexpected "a" expecting "asc", "desc", "nullsfirst" or "nullslast"',
  ],
  [
    'order=',
    '"failed to parse order ()" (line 1, column 1)',
    'unexpected end of input expecting field name (* or [a..z0..9_$])',
  ],
  [
    'or=(a.eq.1)x',
    '"failed to parse logic tree ((a.eq.1)x)" (line 1, column 9)',
    'unexpected "x" expecting end of input',
  ],
];
for (const [query, message, details] of MISTAKES) {
  test(`${query} returns PGRST100 with the column of the error`, () => {
    try {
      parse(query);
      assert.unreachable();
    } catch (error) {
      assert.instance(error, RestError);
      const { code, status, message: actual, details: more } = error as RestError;
      assert.equal({ code, status, actual, more }, { code: 'PGRST100', status: 400, actual: message, more: details });
    }
  });
}

test('endless parentheses are rejected at a bounded depth', () => {
  for (const text of [`or=${'(and'.repeat(5000)}`, `select=${'a('.repeat(5000)}`])
    assert.throws(
      () => parse(text),
      (error: RestError) => error.code === 'PGRST100',
    );
});

test('the shape of a request omits exactly the values that parsing replaces by slots', () => {
  for (const [value, , operation] of OPERATIONS) {
    const bound = (operation as { value?: { slot?: { start: number } } }).value?.slot?.start;
    assert.is(valueStart('col', value, false), bound, value);
  }
  for (const name of ['select', 'order', 'and', 'or', 'posts.or', 'columns', 'on_conflict', 'posts.limit'])
    assert.is(valueStart(name, 'eq.1', false), undefined);
  assert.is(valueStart('arg', 'anything', true), 0);
});

test.run();
