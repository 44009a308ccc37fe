/** Tests the conversion of a change's values to JSON, and the parsing of filters. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MAX_CONDITIONS, readFilter } from './filter.js';
import { jsonOf } from './payload.js';

/** A type's name, after the delimiters of its arrays. */
const VALUES: [string | null, string, string][] = [
  [null, 'int4', 'null'],
  ['9223372036854775807', 'int8', '9223372036854775807'],
  ['1.50', 'numeric', '1.50'],
  ['NaN', 'float8', '"NaN"'],
  ['-Infinity', 'float8', '"-Infinity"'],
  ['t', 'bool', 'true'],
  ['{"a": 1}', 'jsonb', '{"a": 1}'],
  ['2026-01-02 03:04:05', 'timestamp', '"2026-01-02T03:04:05"'],
  ['2026-01-02 03:04:05.6+00', 'timestamptz', '"2026-01-02T03:04:05.6+00:00"'],
  ['infinity', 'timestamptz', '"infinity"'],
  ['say "hi"\n', 'text', '"say \\"hi\\"\\n"'],
  ['0044-03-15 12:00:00+00 BC', 'timestamptz', '"0044-03-15T12:00:00+00:00 BC"'],
  ['12', 'oid', '"12"'],
  ['{1,NULL,3}', ',int4', '[1,null,3]'],
  ['{}', ',text', '[]'],
  ['{{1,2},{3,4}}', ',int4', '[[1,2],[3,4]]'],
  ['[2:3]={1,2}', ',int4', '[1,2]'],
  ['{"{1,2}",NULL}', ',,int4', '[[1,2],null]'],
  ['{(1,1),(0,0);(2,2),(0,0)}', ';box', '["(1,1),(0,0)","(2,2),(0,0)"]'],
  ['{a,"b,\\"c\\\\",NULL,"NULL"}', ',text', '["a","b,\\"c\\\\",null,"NULL"]'],
  ['\\x00ff', 'bytea', '"\\\\x00ff"'],
];
test('values of a change are converted to the same JSON as by to_jsonb', () => {
  for (const [text, type, json] of VALUES) {
    const [, delimiters = '', baseType = ''] = /^(\W*)(\w+)$/.exec(type) ?? [];
    assert.is(jsonOf(text, { baseType, delimiters }), json, `${type} ${text}`);
    JSON.parse(jsonOf(text, { baseType, delimiters }));
  }
});

const condition = (column: string, operator: string, values: string[], isNegated = false) => ({
  column,
  operator,
  isNegated,
  values,
});
const FILTERS: [string, unknown][] = [
  ['id=eq.1', [condition('id', 'eq', ['1'])]],
  ['t=eq.a=b.c', [condition('t', 'eq', ['a=b.c'])]],
  ['t=eq."a,b",n=gt.2', [condition('t', 'eq', ['a,b']), condition('n', 'gt', ['2'])]],
  ['t=in.("a,)",b)', [condition('t', 'in', ['a,)', 'b'])]],
  ['t=not.in.(1)', [condition('t', 'in', ['1'], true)]],
  ['t=eq."say \\"hi\\""', [condition('t', 'eq', ['say "hi"'])]],
];
test('filters are parsed in the form that realtime-js writes', () => {
  for (const [text, expected] of FILTERS) assert.equal(readFilter(text), expected, text);
});

const WRONG = [
  '',
  'id',
  'id=1',
  'id=eq',
  'id=toString.1',
  'id=in.1,2',
  'id=is.1',
  'id=eq.\0',
  Array.from({ length: MAX_CONDITIONS + 1 }, () => 'id=eq.1').join(),
];
test('an invalid filter is rejected with the reason', () => {
  for (const text of WRONG) assert.type(readFilter(text), 'string', text);
});

test.run();
