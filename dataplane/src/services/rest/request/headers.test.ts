import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce } from '../../../testing/steps.js';
import { outlineOf } from './api-request.js';
import { parseBody } from './body.js';
import { contentType, negotiate } from './media.js';
import { parsePreferences, preferenceApplied } from './preferences.js';
import { contentRange, rangeStatus, rowRange } from './range.js';

const test = suite('head and body of a request');
const codeOf = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    return (error as { code: string }).code;
  }
  return undefined;
};

test('preferences are parsed, the first of a kind counts, and only applied preferences are reported', () => {
  const preferences = parsePreferences(
    'return=representation, resolution=merge-duplicates,return=minimal, max-affected=5, bogus=1',
  );
  assert.is(preferences.return, 'representation');
  assert.is(preferences.maxAffected, 5);
  assert.is(
    preferenceApplied(preferences, ['return', 'resolution', 'count']),
    'resolution=merge-duplicates, return=representation',
  );
  assert.is(preferenceApplied(preferences, ['count']), undefined);
  assert.is(
    codeOf(() => parsePreferences('handling=strict, bogus=1')),
    'PGRST122',
  );
});

const MEDIA: [accept: string, type: string][] = [
  ['*/*', 'application/json; charset=utf-8'],
  ['text/html, application/json;q=0.9', 'application/json; charset=utf-8'],
  ['application/json;q=0.1, text/csv', 'text/csv; charset=utf-8'],
  ['application/vnd.pgrst.object+json', 'application/vnd.pgrst.object+json; charset=utf-8'],
  [
    'application/vnd.pgrst.object+json;nulls=stripped',
    'application/vnd.pgrst.object+json; nulls=stripped; charset=utf-8',
  ],
];
for (const [accept, type] of MEDIA)
  test(`Accept: ${accept} gets ${type}`, () => assert.is(contentType(negotiate(accept, {})), type));

test('an unavailable media type returns PGRST107, even if it is the name of a member of Object', () => {
  for (const accept of ['image/png', 'constructor', 'application/openapi+json'])
    assert.is(
      codeOf(() => negotiate(accept, {})),
      'PGRST107',
    );
  assert.is(negotiate('application/openapi+json', { root: true }).media, 'openapi');
});

test('limit and offset are narrowed by Range', () => {
  const range = (query: [string, string][], header?: string) => rowRange(query, header);
  assert.equal(range([]), { offset: 0, limit: undefined });
  assert.equal(
    range([
      ['limit', '5'],
      ['offset', '2'],
    ]),
    { offset: 2, limit: 5 },
  );
  assert.equal(range([], '3-7'), { offset: 3, limit: 5 });
  assert.equal(range([], '3-'), { offset: 3, limit: undefined });
  assert.equal(range([['limit', '2']], '0-9'), { offset: 0, limit: 2 });
  assert.equal(range([['limit', 'x']], 'junk'), { offset: 0, limit: undefined });
  assert.is(
    codeOf(() => range([['limit', '-1']])),
    'PGRST103',
  );
  assert.is(
    codeOf(() => range([], '7-3')),
    'PGRST103',
  );
  assert.equal(
    [contentRange(0, 9, 100), contentRange(0, -1, undefined), contentRange(0, -1, 0)],
    ['0-9/100', '*/*', '*/0'],
  );
  assert.equal(
    [rangeStatus(0, 9, 100), rangeStatus(0, 9, 10), rangeStatus(20, 19, 10), rangeStatus(0, 9, undefined)],
    [206, 200, 416, 200],
  );
});

test('bodies are parsed by their type, and invalid JSON or rows with different keys return PGRST102', () => {
  const body = (text: string, type?: string) => atOnce(parseBody(Buffer.from(text), type, false));
  assert.equal(body('{"a":1}').keys, ['a']);
  assert.equal(
    [body('[]').form, body('').form, body('3').form, body('[{"x":1}]').form],
    ['array', 'empty', 'other', 'array'],
  );
  assert.is(body('a=1&b=x%20y', 'application/x-www-form-urlencoded').bytes.toString(), '{"a":"1","b":"x y"}');
  assert.is(
    codeOf(() => body('{')),
    'PGRST102',
  );
  assert.is(
    codeOf(() => body('x', 'image/png')),
    'PGRST102',
  );
  for (const text of ['[{"a":1},{"b":1}]', '[{"a":1},{"a":1,"b":1}]', '[{"a":1},3]', '3'])
    assert.not(body(text).isUniform, text);
  for (const text of ['[{"a":1,"b":2},{"b":1,"a":2}]', '{"a":1}', '[]', '[{}]']) assert.ok(body(text).isUniform, text);
});

test('outlineOf distinguishes paths and methods', () => {
  const outline = (method: string, path: string, headers = {}) =>
    outlineOf(method, path, headers, { schemas: ['public', 'other'] });
  assert.equal(outline('GET', '/').target, { kind: 'root' });
  assert.equal(outline('POST', '/rpc/f').target, { kind: 'function', name: 'f' });
  assert.equal(outline('GET', '/my%20table').target, { kind: 'table', name: 'my table' });
  assert.is(outline('POST', '/t', { 'content-profile': 'other' }).schema, 'other');
  assert.is(
    codeOf(() => outline('GET', '/t', { 'accept-profile': 'secret' })),
    'PGRST106',
  );
  assert.is(
    codeOf(() => outline('PUT', '/rpc/f')),
    'PGRST101',
  );
  assert.is(
    codeOf(() => outline('TRACE', '/t')),
    'PGRST117',
  );
  for (const path of ['/a/b', '/rpc/a/b', '/%ff'])
    assert.is(
      codeOf(() => outline('GET', path)),
      'PGRST125',
    );
});

test.run();
