/** Tests the limits of decoded JSON, and the turns of the event loop for the largest texts within them. */

import { processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type JsonBound, JsonRefusal, ONE_TURN, parseExactJson, parseJson } from './json.js';

const SMALL: JsonBound = { bytes: 100, depth: 3, values: 10 };

const refusalOf = (text: Buffer | string, bound = SMALL): JsonRefusal => {
  try {
    parseJson(text, bound);
  } catch (error) {
    if (error instanceof JsonRefusal) return error;
    throw error;
  }
  throw new Error(`${text} was decoded`);
};

test('parseJson decodes text and bytes with the same result as JSON.parse', () => {
  for (const text of ['null', '"a,[{:\\"[[[[["', ' [1, {"é": [true]}] ', '{"a":"\\u005b\\\\"}', '-1.5e3']) {
    assert.equal(parseJson(text, SMALL), JSON.parse(text));
    assert.equal(parseJson(Buffer.from(text), SMALL), JSON.parse(text));
  }
});

test('parseJson accepts text at its limit of values, and rejects text with one value more', () => {
  assert.is(parseJson(`"${'a'.repeat(98)}"`, SMALL), 'a'.repeat(98));
  assert.is(refusalOf(`"${'a'.repeat(99)}"`).reason, 'bytes');
  assert.equal(parseJson('[[[0]]]', SMALL), [[[0]]]);
  assert.is(refusalOf('[[[[0]]]]').reason, 'depth');
  // A list, and commas before all but the first of its values.
  assert.equal(parseJson('[1,2,3,4,5,6,7,8,9]', SMALL), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.is(refusalOf('[1,2,3,4,5,6,7,8,9,10]').reason, 'values');
  assert.is(refusalOf('{"a":{"b":1},"c":[2,3],"d":[4]}').reason, 'values');
});

test('parseJson counts bytes, not characters', () => {
  assert.is(refusalOf(`"${'é'.repeat(50)}"`).reason, 'bytes');
  assert.is(refusalOf(Buffer.from(`"${'é'.repeat(50)}"`)).reason, 'bytes');
});

test('JSON that parseExactJson decoded is written with the same numbers', () => {
  for (const text of [
    '9007199254740993',
    '[1,1.00000000000000000001,-0.1,12345678901234567890.5,1e400]',
    '{"a":{"n":9007199254740993,"text":"9007199254740993"},"b":[1.5,true,null]}',
    '"0123456789012345"',
  ]) {
    assert.is(JSON.stringify(parseExactJson(text)), text);
  }
  assert.equal(parseExactJson('[1,{"a":2.5}]'), [1, { a: 2.5 }]);
  assert.equal(parseExactJson('{"n":1,"long":"2026-01-02 03:04:05.678901"}'), {
    n: 1,
    long: '2026-01-02 03:04:05.678901',
  });
  const own = parseExactJson('{"__proto__":12345678901234567890}') as object;
  assert.equal([Object.keys(own), Object.getPrototypeOf(own)], [['__proto__'], Object.prototype]);
});

test('parseExactJson has the bounds of parseJson', () => {
  const n = '1234567890123456789';
  const reasons = [`"${'é'.repeat(31)}${n}${n}"`, `[[[[${n}]]]]`, `[${n},2,3,4,5,6,7,8,9,10,11]`, `[${n}`].map(
    (text) => {
      try {
        parseExactJson(text, SMALL);
      } catch (error) {
        return (error as JsonRefusal).reason;
      }
    },
  );
  assert.equal(reasons, ['bytes', 'depth', 'values', 'syntax']);
});

test('parseJson rejects invalid JSON without quoting it', () => {
  for (const text of ['', '{', '"a', '"\\', ']]]]', 'secret', '{"a":secret}', '[1,]', '"a" "b"']) {
    const { reason, message } = refusalOf(text);
    assert.is(reason, 'syntax');
    assert.not.match(message, 'secret');
  }
});

test('parseJson rejects excessive depth before decoding', () => {
  assert.is(refusalOf('['.repeat(1_000_000), ONE_TURN).reason, 'depth');
});

const LARGEST: Record<string, string> = {
  'objects of as many shapes': `[${list(ONE_TURN.values / 3 - 1, (i) => `{"k${i}":1}`)}]`,
  'one object of many names': `{${list(ONE_TURN.values / 2 - 1, (i) => `"k${i}":1`)}}`,
  'nested objects': `[${list(ONE_TURN.values / 21 - 1, () => `${'{"a":'.repeat(10)}1${'}'.repeat(10)}`)}]`,
  'many texts': `[${list(ONE_TURN.values - 2, (i) => `"s${i}"`)}]`,
  'escaped text': `"${'\\u00e9'.repeat((ONE_TURN.bytes - 2) / 6)}"`,
  'text beyond Latin-1': `"${'€'.repeat((ONE_TURN.bytes - 2) / 3)}"`,
  'a long number': '1'.repeat(ONE_TURN.bytes),
};

for (const [shape, text] of Object.entries(LARGEST)) {
  test(`the largest of ${shape} takes at most 20 ms of processor time`, () => {
    const bytes = Buffer.from(text);
    const took = processorTimeOf(() => parseJson(bytes));
    assert.ok(took <= TURN_MS, `took ${took} ms`);
  });
}

function list(count: number, item: (i: number) => string): string {
  return Array.from({ length: Math.floor(count) }, (_, i) => item(i)).join(',');
}

test.run();
