/** Tests the limits on the cost of a JSON Patch. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type JsonPatchOperation, JsonPatchTooLarge, jsonPatch, MAX_COPIED_BYTES } from './json-patch.js';

test('copy operations that double a document fail when they exceed the size limit', () => {
  const copies = Array.from(
    { length: 40 },
    (_, index): JsonPatchOperation => ({ op: 'copy', from: '', path: `/copy${index}` }),
  );
  assert.throws(
    () => jsonPatch({ text: 'x'.repeat(1000) }, copies),
    (error: Error) => error instanceof JsonPatchTooLarge && /copy operations/.test(error.message),
  );
});

test('copy operations succeed within the size limit', () => {
  const text = 'x'.repeat(MAX_COPIED_BYTES / 4);
  const patched = jsonPatch({ text }, [
    { op: 'copy', from: '/text', path: '/a' },
    { op: 'copy', from: '/text', path: '/b' },
  ]);
  assert.equal(patched, { text, a: text, b: text });
});

test.run();
