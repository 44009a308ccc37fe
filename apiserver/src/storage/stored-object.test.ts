/** Tests the size of objects in the heap, and the size of a history. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { KubeObject } from '../objects.js';
import { History } from './history.js';
import { newVersion, type StoredObject } from './stored-object.js';

const PLACE = { resource: 'configmaps', namespace: 'default', name: 'a' };
const MIB = 1024 * 1024;

const objectWith = (others: object): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', uid: 'u', resourceVersion: '', creationTimestamp: 'now', labels: { a: 'b' } },
  ...others,
});

test('a short object is equal to its outline', () => {
  const object = objectWith({ data: { text: 'short' } });
  const stored = newVersion(PLACE, 7, object);
  assert.is(stored.outline, object);
  assert.is(stored.object, object);
  assert.equal(JSON.parse(stored.bytes.toString()), objectWith({ data: { text: 'short' }, metadata: object.metadata }));
  assert.is(object.metadata.resourceVersion, '7');
});

test('an outline has all metadata and the beginning of a long text, and the object is complete', () => {
  const long = '€'.repeat(100_000);
  const note = 'n'.repeat(100_000);
  const object = objectWith({ data: { text: long, list: [{ deep: long }, 'short'], number: 1, nothing: null } });
  object.metadata.annotations = { note };
  const { outline, object: whole } = newVersion(PLACE, 7, object);
  const beginning = '€'.repeat(4096);
  assert.equal(outline.data, { text: beginning, list: [{ deep: beginning }, 'short'], number: 1, nothing: null });
  assert.equal(outline.metadata, object.metadata);
  assert.equal(whole, object);
  assert.equal(Object.keys(outline).sort(), ['apiVersion', 'data', 'kind', 'metadata']);
});

test('a large object without a long text is decoded once', () => {
  const object = objectWith({ data: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`k${i}`, 'v'])) });
  const stored = newVersion(PLACE, 7, object);
  assert.is(stored.object, object);
});

test('the history stays within its limit, which counts the bytes before and after each change', () => {
  const history = new History(0);
  let previous: StoredObject | undefined;
  for (let revision = 1; revision <= 100; revision++) {
    const stored = newVersion(PLACE, revision, objectWith({ data: { text: 'x'.repeat(MIB) } }));
    history.push({ type: previous ? 'MODIFIED' : 'ADDED', stored, previous });
    previous = stored;
  }
  assert.ok(history.after(99) !== undefined);
  assert.is(history.after(100 - 33), undefined, '33 changes of two megabytes are more than 64');
  assert.ok(history.after(100 - 31) !== undefined);
});

test.run();
