/** Tests bodies of every type, and that the largest are handled in short turns of the event loop. */

import { medianOfFive, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MAX_BODY_BYTES } from '../../../http/request-body.js';
import { atOnce, stepTimesOf } from '../../../testing/steps.js';
import { RestError } from '../errors.js';
import { type Body, parseBody } from './body.js';

const FORM = 'application/x-www-form-urlencoded';
const CSV = 'text/csv';

const parsed = (text: string, type?: string) => atOnce(parseBody(Buffer.from(text), type, true));
const shown = ({ form, keys, isUniform }: Body) => [form, keys, isUniform];

function refusalOf(text: string, type?: string): RestError {
  try {
    parsed(text, type);
  } catch (error) {
    if (error instanceof RestError) return error;
    throw error;
  }
  throw new Error(`${text.slice(0, 80)} was accepted`);
}

test('JSON is accepted if JSON.parse accepts it, and is sent unchanged', () => {
  const texts = [
    ...['null', ' true\n', 'false ', '0', '-0.5e+10', '1E-3', '"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9é€😀"', '[]', '{}'],
    ...['[1,[2,{"a":[]}],"x"]', '{"a":{"b":{}},"c":[{}]}', '\t{ "a" : [ 1 , 2 ] , "b" : null }\r\n', '"\u007f"'],
    ...['', ' ', 'tru', 'truex', 'nul', 'True', 'NaN', '01', '-', '1.', '.5', '1e', '1e+', '+1', '--1', '1 2'],
    ...['"', '"\\', '"\\"', '"\\x"', '"\\u12"', '"\\u12g4"', '"\n"', '"\u0000"', "'a'", '\ufeff1', '\u00a01'],
    ...['[', ']', '[1', '[1,', '[1,]', '[,1]', '[1 2]', '[1:2]', '[}', '{]', '[1}', '{"a":1]', '{', '}', '{"a"'],
    ...['{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{,}', '{"a"}', '{1:2}', '{"a":1 "b":2}', '{"a" 1}', '{a:1}'],
    ...['[]]', '{}}', '[],', '[] []', '{"a":1}{"b":2}', '[1]x', '"a":1', ',', ':', '[[]', '{"a":[}'],
  ];
  for (const text of texts.filter((each) => each !== '')) {
    let isJson = true;
    try {
      JSON.parse(text);
    } catch {
      isJson = false;
    }
    if (isJson) assert.is(parsed(text).bytes.toString(), text);
    else assert.equal([refusalOf(text).status, refusalOf(text).code], [400, 'PGRST102'], JSON.stringify(text));
  }
});

test('names in JSON rows are compared after decoding their escapes', () => {
  assert.equal(shown(parsed('{"\\u0061":1,"b":2,"a":3,"__proto__":4}')), ['object', ['a', 'b', '__proto__'], true]);
  assert.equal(shown(parsed('[{"a":{"x":1},"b":2},{"\\u0061":1,"b":{"y":[{"z":1}]}}]')), ['array', ['a', 'b'], true]);
  assert.equal(shown(parsed('[{"a":1,"a":2},{"a":1}]')), ['array', ['a'], true]);
  assert.equal(shown(parsed('[{"a":1,"b":1},{"a":1,"a":1}]')), ['array', ['a', 'b'], false]);
  assert.equal(shown(parsed('[{"a":1},[{"a":1}]]')), ['array', ['a'], false]);
  assert.equal(shown(parsed('[3,{"a":1}]')), ['array', [], false]);
});

test('names in JSON rows have a maximum number and length', () => {
  const many = parsed(`{${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`).join(',')}}`);
  assert.equal([many.keys.length, many.form], [2_000, 'object']);
  assert.is(parsed(`[{"${'k'.repeat(1_000_000)}":1}]`).keys[0]?.length, 512);
});

test('a JSON body of 512 levels is accepted, and one of 513 levels is rejected', () => {
  assert.is(parsed(`${'['.repeat(512)}${']'.repeat(512)}`).form, 'array');
  assert.match(refusalOf(`${'{"a":'.repeat(513)}1${'}'.repeat(513)}`).message, /more than 512 levels/);
  assert.match(refusalOf('['.repeat(MAX_BODY_BYTES)).message, /more than 512 levels/);
});

test('a form becomes one object of texts, as URLSearchParams parses it', () => {
  const long = `v=${encodeURIComponent('é"\\'.repeat(50_000))}`;
  for (const text of [
    '',
    'a',
    'a=',
    '=v',
    '=',
    '&&a=1&',
    'a=1&b=x%20y+z',
    'a=1&a=2',
    'a=%',
    'a=%4',
    'a=%zz%41',
    long,
  ]) {
    const { bytes, keys, form } = parsed(text, FORM);
    const expected = Object.fromEntries(new URLSearchParams(text));
    assert.equal(JSON.parse(bytes.toString()), expected, text.slice(0, 80));
    assert.equal([form, keys], ['object', Object.keys(expected)]);
  }
  assert.equal(JSON.parse(parsed('a=%00%1f%22', FORM).bytes.toString()), { a: '\u0000\u001f"' });
  const many = Array.from({ length: 2_001 }, (_, i) => `k${i}=1`).join('&');
  assert.match(refusalOf(many, FORM).message, /more than 2000 fields/);
  assert.match(refusalOf(`${'k'.repeat(257)}=1`, FORM).message, /name of more than 256 bytes/);
});

test('a CSV becomes an array of objects, whatever the content of its fields', () => {
  const rows = (text: string) => JSON.parse(parsed(text, CSV).bytes.toString());
  assert.equal(rows(''), []);
  assert.equal(rows('a,b'), []);
  assert.equal(rows('a,"b""c"\n1,NULL\r\n"x""y\n,z",\r"NULL",""'), [
    { a: '1', 'b"c': null },
    { a: 'x"y\n,z', 'b"c': '' },
    { a: null, 'b"c': '' },
  ]);
  assert.equal(rows('a,b\n1,'), [{ a: '1', b: '' }]);
  assert.equal(rows(`a\n"${'""x\u0001'.repeat(100_000)}"\n`), [{ a: '"x\u0001'.repeat(100_000) }]);
  assert.equal(shown(parsed('a,b,a\n1,2,3', CSV)), ['array', ['a', 'b'], true]);
  assert.equal(shown(parsed('a,b', CSV)), ['array', [], true]);
  for (const text of ['a\n"', 'a\n"x""', 'a\nx"y"', 'a\n"x"y'])
    assert.match(refusalOf(text, CSV).message, /^Invalid CSV/);
  for (const text of ['a,b\n1', 'a\n1,2', 'a,b\n1,2\n\n'])
    assert.match(refusalOf(text, CSV).message, /same number of fields/);
  assert.match(refusalOf(','.repeat(2_000), CSV).message, /more than 2000 columns/);
});

test('a CSV body that would be far larger as JSON is rejected', () => {
  const { status, message } = refusalOf(`${'n'.repeat(200)}\n${'1\n'.repeat(1_000_000)}`, CSV);
  assert.is(status, 413);
  assert.match(message, /more than \d+ bytes as JSON/);
});

test('bytes for a function’s only parameter are sent in Postgres’ format', () => {
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 256));
  const { bytes: sent, type } = atOnce(parseBody(bytes, 'application/octet-stream', true));
  assert.equal([type, sent.toString()], ['bytea', `\\x${bytes.toString('hex')}`]);
});

const filled = (open: string, unit: string, close: string) =>
  Buffer.from(open + unit.repeat((MAX_BODY_BYTES - open.length - close.length) / unit.length) + close);

/** The largest bodies of each type. More forms of large bodies are in decoders.long.test.ts. */
const LARGEST: [what: string, body: Buffer, type?: string][] = [
  ['JSON with small rows', filled('[{}', ',{"a":1}', ']')],
  ['JSON of nested arrays', filled('[0', `,${'['.repeat(500)}${']'.repeat(500)}`, ']')],
  ['a CSV of one text', filled('a\n"', '""', '"'), CSV],
];

for (const [what, body, type] of LARGEST) {
  test(`the largest ${what} takes at most ${TURN_MS} ms of processor time in one step`, () => {
    const took = medianOfFive(() => Math.max(...stepTimesOf(parseBody(body, type, true))));
    assert.ok(took <= TURN_MS, `took ${took} ms`);
  });
}

test.run();
