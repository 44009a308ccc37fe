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
    promise: 'a default of the API server is no difference',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, b: 2 } },
  },
  {
    promise: 'a default is a difference in a field that is wholly ours',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, b: 2 } },
    strictness: exact,
    patch: { spec: { b: null } },
  },
  {
    promise: 'a default is no difference in a field that is always filled in',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 1, className: 'x' } },
    strictness: { ...exact, filled: ['className'] },
  },
  {
    promise: 'another value is a difference',
    wanted: { spec: { a: 1 } },
    live: { spec: { a: 2 } },
    patch: { spec: { a: 1 } },
  },
  {
    promise: 'an additional item in a list is a difference',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1 }, { a: 2 }] } },
    patch: { spec: { list: [{ a: 1 }] } },
  },
  {
    promise: 'a default in an item of a list is no difference',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1, b: 2 }] } },
  },
  { promise: 'an empty list equals a missing one', wanted: { spec: { list: [] } }, live: { spec: {} } },
  { promise: 'an empty map equals a missing one', wanted: { spec: { map: {} } }, live: { spec: {} } },
  {
    promise: 'an additional key in an empty selector is a difference',
    wanted: { spec: { podSelector: {} } },
    live: { spec: { podSelector: { matchLabels: { a: 'b' } } } },
    patch: { spec: { podSelector: { matchLabels: null } } },
  },
  {
    promise: 'an additional key in a selector is a difference',
    wanted: { spec: { selector: { a: 'b' } } },
    live: { spec: { selector: { a: 'b', c: 'd' } } },
    patch: { spec: { selector: { c: null } } },
  },
  {
    promise: 'a forbidden field is removed at any depth',
    wanted: { spec: { pod: { a: 1 } } },
    live: { spec: { pod: { a: 1, b: 2, hostNetwork: true } } },
    strictness: forbidden,
    patch: { spec: { pod: { hostNetwork: null } } },
  },
  {
    promise: 'a forbidden field in an item is a difference',
    wanted: { spec: { list: [{ a: 1 }] } },
    live: { spec: { list: [{ a: 1, b: 2, command: ['x'] }] } },
    strictness: forbidden,
    patch: { spec: { list: [{ a: 1 }] } },
  },
  {
    promise: 'a field that we set ourselves is not forbidden',
    wanted: { spec: { list: [{ command: ['x'] }] } },
    live: { spec: { list: [{ command: ['x'], b: 2 }] } },
    strictness: forbidden,
  },
  {
    promise: 'a label with the name of a forbidden field is no difference',
    wanted: { spec: { template: { metadata: { labels: { a: '1' } } } } },
    live: { spec: { template: { metadata: { labels: { a: '1', command: 'x' } } } } },
    strictness: forbidden,
  },
  {
    promise: 'an additional limit is a difference',
    wanted: { spec: { resources: { limits: { memory: '1Gi' } } } },
    live: { spec: { resources: { limits: { memory: '1024Mi', cpu: '1m' } } } },
    patch: { spec: { resources: { limits: { cpu: null } } } },
  },
  {
    promise: 'quantities are compared by their amount',
    wanted: { spec: { hard: { cpu: '1000m', memory: '1024Mi', storage: '0.5Gi' } } },
    live: { spec: { hard: { cpu: '1', memory: '1Gi', storage: '512Mi' } } },
    strictness: exact,
  },
  {
    promise: 'other texts are not compared as quantities',
    wanted: { data: { size: '1000m' } },
    live: { data: { size: '1' } },
    patch: { data: { size: '1000m' } },
  },
  {
    promise: 'another quantity is a difference',
    wanted: { spec: { hard: { pods: '10' } } },
    live: { spec: { hard: { pods: '1k' } } },
    patch: { spec: { hard: { pods: '10' } } },
  },
];

for (const { promise, wanted, live, strictness = loose, patch } of cases) {
  test(promise, () => assert.equal(objectDifference(object(wanted), object(live), strictness), patch));
}

test('labels that others add are no difference, and changes of the operator’s labels are', () => {
  const wanted = object({}, { labels: { ours: '1' } });
  assert.is(objectDifference(wanted, object({}, { labels: { ours: '1', theirs: '2' } }), exact), undefined);
  assert.equal(objectDifference(wanted, object({}, { labels: { ours: '2' } }), exact), {
    metadata: { labels: { ours: '1' } },
  });
});

test.run();
