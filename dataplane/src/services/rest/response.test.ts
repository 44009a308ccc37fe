/** Tests the limits on headers, status and Location that a project's functions set. */

import { randomBytes } from 'node:crypto';
import { medianOfFive, processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce, stepTimesOf } from '../../testing/steps.js';
import type { CompiledRequest } from './compile.js';
import { RestError } from './errors.js';
import { type Answer, answerOf, bytesOf, planAnswer, resultOf } from './response.js';

const MIB = 1024 * 1024;

const RANGE = { limit: undefined, offset: 0 };
const READ = {
  request: { action: 'read', preferences: {}, representation: { media: 'array' }, target: { kind: 'root' } },
} as unknown as CompiledRequest;
const INSERT = {
  request: { action: 'insert', preferences: {}, parameters: [], target: { kind: 'table', name: 'seen' } },
  table: { primaryKey: ['id'] },
} as unknown as CompiledRequest;

const ASKED = { range: RANGE, planned: undefined, query: '' };

interface Settings {
  status?: string;
  headers?: string;
  keys?: string;
  inserted?: string;
}

function answer({ status, headers, keys, inserted }: Settings, compiled = READ): Answer {
  const cells = ['[]', '1', undefined, inserted, keys, status, headers];
  const row = cells.map((cell) => (cell === undefined ? null : Buffer.from(cell)));
  return answerOf(compiled, resultOf(row), ASKED);
}

const headerList = (count: number) => `[${Array.from({ length: count }, (_, i) => `{"a":"${i}"}`).join(',')}]`;

function refusalOf(settings: Settings): RestError {
  try {
    answer(settings);
  } catch (error) {
    if (error instanceof RestError) return error;
    throw error;
  }
  throw new Error('no refusal');
}

test('response.headers can set a header several times', () => {
  const { headers } = answer({ headers: '[{"X-A":"1"},{"x-a":"2"},{"content-range":"mine"},{"__proto__":"p"}]' });
  assert.equal(headers['X-A'], ['1', '2']);
  assert.equal(headers['Content-Range'], ['mine']);
  assert.equal(answer({ headers: '[{"constructor":"c"}]' }).headers.constructor, ['c']);
});

test('response.headers of more than 64 KiB or 4,000 values, or with nested values, is an error', () => {
  for (const [headers, why] of [
    [headerList(1_400), /more than 4000 values/],
    [`[{"a":"${'x'.repeat(64 * 1024)}"}]`, /larger than 65536 bytes/],
    [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, /larger than/],
    ['[[[]]]', /more than 2 levels/],
  ] as const) {
    const { status, code, details } = refusalOf({ headers });
    assert.equal([status, code], [500, 'PGRST111']);
    assert.match(String(details), why);
  }
  assert.is(refusalOf({ headers: '{' }).details, null);
});

for (const [what, headers] of [
  ['the most headers', headerList(1_300)],
  ['20,000 headers', headerList(20_000)],
  ['headers of 40 MB', `[${'{"a":[]},'.repeat(4_500_000)}0]`],
] as const) {
  test(`response.headers with ${what} takes at most ${TURN_MS} ms of processor time`, () => {
    const cells = [null, null, null, null, null, null, Buffer.from(headers)];
    const took = processorTimeOf(() => {
      try {
        answerOf(READ, resultOf(cells), ASKED);
      } catch (error) {
        assert.instance(error, RestError);
      }
    });
    assert.ok(took <= TURN_MS, `took ${took} ms`);
  });
}

test('response.status of any length becomes a status or an error', () => {
  assert.is(answer({ status: '418' }).status, 418);
  for (const status of ['2000', '99', '600', '200'.repeat(10_000_000)]) {
    assert.is(refusalOf({ status }).code, 'PGRST112');
  }
});

test('Location has the key of the new row, and is omitted if the key is larger than a header', () => {
  assert.is(answer({ keys: '{"id":"a b"}' }, INSERT).headers.Location, '/seen?id=eq.a%20b');
  const large = answer({ keys: `{"id":"${'k'.repeat(20_000)}"}`, inserted: '1'.repeat(10_000_000) }, INSERT);
  assert.equal([large.status, large.headers.Location], [201, undefined]);
});

test('bytes of a project’s own media type are decoded in steps', () => {
  assert.equal(atOnce(bytesOf(Buffer.from('\\x00ff41'))), Buffer.from([0, 255, 65]));
  assert.equal(atOnce(bytesOf(Buffer.from(''))), Buffer.alloc(0));
  const bytes = randomBytes(MIB);
  assert.ok(atOnce(bytesOf(Buffer.from(`\\x${bytes.toString('hex')}`))).equals(bytes));
  const most = Buffer.alloc(64 * MIB, '61');
  const took = medianOfFive(() => Math.max(...stepTimesOf(bytesOf(most))));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test('the lines of a query plan are joined in steps', () => {
  const PLAN = { request: { representation: { media: 'plan' } } } as unknown as CompiledRequest;
  const rows = (count: number) => Array.from({ length: count }, (_, i) => [i === 1 ? null : Buffer.from(`line ${i}`)]);
  assert.is(atOnce(planAnswer(PLAN, rows(3))).body?.toString(), 'line 0\n\nline 2');
  const { body } = atOnce(planAnswer(PLAN, rows(2_001)));
  assert.is(body?.toString().split('\n').length, 2_001);
  const most = rows(500_000);
  const took = medianOfFive(() => Math.max(...stepTimesOf(planAnswer(PLAN, most))));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
