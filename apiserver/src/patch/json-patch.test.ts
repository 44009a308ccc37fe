/** The limits on the cost of a JSON Patch. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type JsonPatchOperation, JsonPatchTooLarge, jsonPatch, MAX_COPIED_BYTES } from './json-patch.js';

test('copies that double a document end at the budget, long before they fill the memory', () => {
  const copies = Array.from(
    { length: 40 },
    (_, index): JsonPatchOperation => ({ op: 'copy', from: '', path: `/copy${index}` }),
  );
  assert.throws(
    () => jsonPatch({ text: 'x'.repeat(1000) }, copies),
    (error: Error) => error instanceof JsonPatchTooLarge && /copy operations/.test(error.message),
  );
});

test('copies within the budget are done', () => {
  const text = 'x'.repeat(MAX_COPIED_BYTES / 4);
  const patched = jsonPatch({ text }, [
    { op: 'copy', from: '/text', path: '/a' },
    { op: 'copy', from: '/text', path: '/b' },
  ]);
  assert.equal(patched, { text, a: text, b: text });
});

test.run();
