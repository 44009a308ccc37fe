import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { objectDifference } from './difference.js';

type Json = Record<string, unknown>;

const none: ReadonlySet<string> = new Set();
const loose = { exact: false, filled: [] as string[], forbidden: none };
const exact = { ...loose, exact: true };
const forbidden = { ...loose, forbidden: new Set(['command', 'hostNetwork']) };
const object = (body: Json, metadata: Json = {}) => ({
  apiVersion: 'v1',
  kind: 'Thing',
  metadata: { name: 'x', ...metadata },
  ...body,
});

const cases: {
  promise: string;
  wanted: Json;
  live: Json;
  strictness?: typeof loose;
  patch?: Json;
}[] = [
  {
    promise: 'what the API server filled in is no difference',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, b: 2 } },
  },
  {
    promise: 'in a field that is wholly ours it is',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, b: 2 } },
    strictness: exact,
    patch: { spec: { b: null } },
  },
  {
    promise: 'but for the fields that it always fills in',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, className: 'x' } },
    strictness: { ...exact, filled: ['className'] },
  },
  {
    promise: 'a value that differs is',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 2 } },
    patch: { spec: { a: 1 } },
  },
  {
    promise: 'a list has our items and no more',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1 }, { a: 2 }] } },
    patch: { spec: { list: [{ a: 1 }] } },
  },
  {
    promise: 'an item may have what the API server filled in',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1, b: 2 }] } },
  },
  { promise: 'an empty list is as good as none', wanted: { spec: { list: [] } }, live: { spec: {} } },
  { promise: 'an empty map is as good as none', wanted: { spec: { map: {} } }, live: { spec: {} } },
  {
    promise: 'an empty selector chooses all, and one more key chooses less',
    wanted: { spec: { podSelector: {} } },
    live: { spec: { podSelector: { matchLabels: { a: 'b' } } } },
    patch: { spec: { podSelector: { matchLabels: null } } },
  },
  {
    promise: 'a selector with one more key is another',
    wanted: { spec: { selector: { a: 'b' } } },
    live: { spec: { selector: { a: 'b', c: 'd' } } },
    patch: { spec: { selector: { c: null } } },
  },
  {
    promise: 'what is forbidden goes, at any depth',
    wanted: { spec: { pod: { a: 1 } } },
    live: { spec: { pod: { a: 1, b: 2, hostNetwork: true } } },
    strictness: forbidden,
    patch: { spec: { pod: { hostNetwork: null } } },
  },
  {
    promise: 'an item with something that is forbidden is another',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1, b: 2, command: ['x'] }] } },
    strictness: forbidden,
    patch: { spec: { list: [{ a: 1 }] } },
  },
  {
    promise: 'what we ask for ourselves is not forbidden',
    wanted: { spec: { list: [{ command: ['x'] }] } },
    live: { spec: { list: [{ command: ['x'], b: 2 }] } },
    strictness: forbidden,
  },
  {
    promise: 'marks by the name of something forbidden are theirs',
    wanted: { spec: { template: { metadata: { labels: { a: '1' } } } } },
    live: { spec: { template: { metadata: { labels: { a: '1', command: 'x' } } } } },
    strictness: forbidden,
  },
  {
    promise: 'in limits one more is a difference',
    wanted: { spec: { resources: { limits: { memory: '1Gi' } } } },
    live: { spec: { resources: { limits: { memory: '1024Mi', cpu: '1m' } } } },
    patch: { spec: { resources: { limits: { cpu: null } } } },
  },
  {
    promise: 'quantities are compared by what they amount to',
    wanted: { spec: { hard: { cpu: '1000m', memory: '1024Mi', storage: '0.5Gi' } } },
    live: { spec: { hard: { cpu: '1', memory: '1Gi', storage: '512Mi' } } },
    strictness: exact,
  },
  {
    promise: 'other texts that look like quantities are not',
    wanted: { data: { size: '1000m' } },
    live: { data: { size: '1' } },
    patch: { data: { size: '1000m' } },
  },
  {
    promise: 'of another quantity it is one',
    wanted: { spec: { hard: { pods: '10' } } },
    live: { spec: { hard: { pods: '1k' } } },
    patch: { spec: { hard: { pods: '10' } } },
  },
];

for (const { promise, wanted, live, strictness = loose, patch } of cases) {
  test(promise, () => assert.equal(objectDifference(object(wanted), object(live), strictness), patch));
}

test('labels that others add are theirs; ours that they change are not', () => {
  const wanted = object({}, { labels: { ours: '1' } });
  assert.is(objectDifference(wanted, object({}, { labels: { ours: '1', theirs: '2' } }), exact), undefined);
  assert.equal(objectDifference(wanted, object({}, { labels: { ours: '2' } }), exact), {
    metadata: { labels: { ours: '1' } },
  });
});

test.run();
