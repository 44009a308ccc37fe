/** Tests messages of realtime as bytes: they are forwarded unchanged, and decoded in short turns of the event loop. */

import { SEED } from '@slipway/program/decoders.testing.js';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce } from '../../../testing/steps.js';
import { elementsOf, memberOf } from './json.js';
import { Broadcast, decodeLargeMessage, decodeMessage, type Version } from './messages.js';

const member = (json: string, name: string | number) => memberOf(Buffer.from(json), name)?.toString().trim();

test('a member of a message is found by its name or index, and the last of several with one name', () => {
  assert.is(member('{"a":[1,{"b":2}],"b":{"a":","}}', 'b'), '{"a":","}');
  assert.is(member('{"a":1}', 'b'), undefined);
  assert.is(member('{}', 'b'), undefined);
  assert.is(member('{"b":1,"b":2}', 'b'), '2');
  assert.is(member(' { "\\u0062" : "}\\"," } ', 'b'), '"}\\","');
  assert.is(member('[1,"a,b",[2,3],{"c":4},{"d":[5]},6]', 4), '{"d":[5]}');
  assert.is(member('[1,2]', 4), undefined);
  assert.is(member('[7]', 0), '7');
});

test('elements of an array in a message are found', () => {
  const texts = (json: string) => elementsOf(Buffer.from(json)).map((text) => text.toString().trim());
  assert.equal(texts('[{"a":[1,2]}, "x]" ,[3],null]'), ['{"a":[1,2]}', '"x]"', '[3]', 'null']);
  assert.equal(texts('[7]'), ['7']);
});

test('the text of a message’s member parses to the member’s value', () => {
  const objects = fc.dictionary(fc.constantFrom('payload', 'a', '"', '\\', 'topic', '__proto__x'), fc.jsonValue());
  fc.assert(
    fc.property(objects, fc.constantFrom(undefined, 1, '\t'), (object, indent) => {
      const text = JSON.stringify(object, null, indent);
      const bytes = member(text, 'payload');
      assert.is(bytes === undefined ? undefined : JSON.stringify(JSON.parse(bytes)), JSON.stringify(object.payload));
      const values = Object.values(object);
      const element = member(JSON.stringify(values, null, indent), 1);
      assert.is(element === undefined ? undefined : JSON.stringify(JSON.parse(element)), JSON.stringify(values[1]));
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

const payloadOf = (frame: Buffer | undefined, version: Version) => {
  const text = frame?.toString('utf8', frame.indexOf(version === '1.0.0' ? '{' : '[')) ?? 'null';
  const message = JSON.parse(text);
  return version === '1.0.0' ? message.payload : message[4];
};

test('a message is decoded equally at once and in steps, and its payload is forwarded unchanged', () => {
  const payload = { type: 'broadcast', event: 'e', payload: { list: [1, 'é', null], text: 'x'.repeat(200_000) } };
  const texts: [Version, string][] = [
    ['2.0.0', JSON.stringify(['1', '2', 'realtime:x', 'broadcast', payload])],
    ['1.0.0', JSON.stringify({ topic: 'realtime:x', event: 'broadcast', payload, ref: '2', join_ref: '1' })],
  ];
  for (const [version, text] of texts) {
    const message = decodeMessage(version, Buffer.from(text), false);
    assert.equal(atOnce(decodeLargeMessage(version, Buffer.from(text), false)), message);
    assert.equal(message?.payload, payload);
    const broadcast = Broadcast.ofJson('realtime:x', message?.json as Buffer);
    for (const to of ['1.0.0', '2.0.0'] as const) assert.equal(payloadOf(broadcast.frame(to), to), payload);
  }
  for (const text of ['{"topic":', '[1,2', '{"topic":"x","event":1}', `[${'['.repeat(600)}`]) {
    assert.is(decodeMessage('1.0.0', Buffer.from(text), false), undefined);
    assert.is(atOnce(decodeLargeMessage('1.0.0', Buffer.from(text), false)), undefined);
  }
});

test.run();
