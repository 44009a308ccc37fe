import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { JsonObject } from '../schema/json-schema.js';
import { applyServerSide, trackUpdate } from './index.js';
import { API_VERSION, expectSteps, ours, ownersOf, run, SCENARIOS, SCHEMA } from './scenarios.testing.js';

for (const [promise, steps] of Object.entries(SCENARIOS)) {
  test(promise, async () => expectSteps(steps, await run(ours, 'object', steps)));
}

test('an apply that changes nothing returns an object equal to the stored one', () => {
  const request = { manager: 'alice', apiVersion: API_VERSION, subresource: '', schema: SCHEMA, force: false };
  const applied = { apiVersion: API_VERSION, kind: 'Field', metadata: { name: 'a' }, spec: { x: '1', set: ['s'] } };
  const first = applyServerSide({ ...request, live: undefined, applied, now: new Date(0) });
  const second = applyServerSide({ ...request, live: first.object, applied, now: new Date(5000) });
  assert.equal(second.object, first.object);
});

test('an update that changes nothing keeps the field managers and their times', () => {
  const request = { apiVersion: API_VERSION, subresource: '', schema: SCHEMA };
  const object = { apiVersion: API_VERSION, kind: 'Field', metadata: { name: 'a' }, spec: { x: '1' } };
  const created = trackUpdate({ ...request, manager: 'alice', before: undefined, after: object, now: new Date(0) });
  const again = trackUpdate({ ...request, manager: 'bob', before: created, after: created, now: new Date(5000) });
  assert.equal(again, created);
});

test('the oldest field managers of updates are merged when there are more than ten, and keep all fields', () => {
  const request = { apiVersion: API_VERSION, subresource: '', schema: SCHEMA };
  let live: JsonObject | undefined;
  const map: Record<string, string> = {};
  for (let index = 0; index < 14; index++) {
    map[`k${index}`] = '1';
    const after = {
      metadata: { name: 'a', ...((live?.metadata as JsonObject) ?? {}) },
      spec: { map: { ...map } },
    };
    live = trackUpdate({ ...request, manager: `m${index}`, before: live, after, now: new Date(index * 1000) });
  }
  const owners = ownersOf(live ?? {});
  assert.is(Object.keys(owners).length, 10);
  assert.ok(owners['ancient-changes Update']?.includes('.spec.map.k0'));
  const owned = Object.values(owners).flat();
  for (const key of Object.keys(map)) assert.ok(owned.includes(`.spec.map.${key}`), key);
});

test('managedFields with one empty entry resets the field managers', () => {
  const object = { metadata: { name: 'a', managedFields: [{}] }, spec: { x: '1' } };
  const before = trackUpdate({
    before: undefined,
    after: { metadata: { name: 'a' }, spec: { x: '1' } },
    manager: 'alice',
    apiVersion: API_VERSION,
    subresource: '',
    schema: SCHEMA,
    now: new Date(0),
  });
  const after = trackUpdate({
    before,
    after: object,
    manager: 'bob',
    apiVersion: API_VERSION,
    subresource: '',
    schema: SCHEMA,
    now: new Date(0),
  });
  assert.is((after.metadata as JsonObject).managedFields, undefined);
});

test.run();
