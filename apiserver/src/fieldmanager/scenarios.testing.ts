/**
 * Scenarios of field ownership. `fieldmanager.test.ts` runs them against our code, and `fieldmanager.cluster.test.ts`
 * against a real kube-apiserver.
 */
import * as assert from 'uvu/assert';
import type { JsonObject, JsonSchema } from '../schema/json-schema.js';
import { paths } from './field-set.js';
import { applyServerSide, trackUpdate } from './index.js';
import { managersOf } from './managers.js';

/** An API group for this process only, because other processes may use the real server too. */
const GROUP = `fieldtest-${process.pid}.slipway.dev`;
export const API_VERSION = `${GROUP}/v1`;
const text: JsonSchema = { type: 'string' };

export const SCHEMA: JsonSchema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        x: text,
        y: text,
        nested: { type: 'object', properties: { a: text, b: text } },
        map: { type: 'object', additionalProperties: text },
        atomic: { type: 'object', 'x-kubernetes-map-type': 'atomic', additionalProperties: text },
        list: { type: 'array', items: text },
        set: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
        keyed: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['name', 'port'],
          items: {
            type: 'object',
            required: ['name'],
            properties: { name: text, port: { type: 'integer', default: 80 }, v: text, w: text },
          },
        },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      },
    },
  },
};

export const CRD = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `fields.${GROUP}` },
  spec: {
    group: GROUP,
    names: { kind: 'Field', plural: 'fields', singular: 'field', listKind: 'FieldList' },
    scope: 'Cluster',
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: SCHEMA } }],
  },
};

export interface Step {
  /** `create` and `update` send the whole object, and `apply` sends the applied fields. */
  by: `${'create' | 'update' | 'apply' | 'force'} ${string}`;
  spec: JsonObject;
  metadata?: JsonObject;
  conflict?: string;
  /** The stored object, if it differs from the sent one. */
  stored?: JsonObject;
  owners?: Record<string, string[]>;
}

export const SCENARIOS: Record<string, Step[]> = {
  'a create is owned by its creator, including maps and items': [
    {
      by: 'create alice',
      spec: { x: '1', map: { a: '1' }, set: ['s'], keyed: [{ name: 'n', port: 80, v: '1' }], list: ['l'] },
      metadata: { labels: { l: '1' } },
      owners: {
        'alice Update': [
          '.metadata.labels',
          '.metadata.labels.l',
          '.spec',
          '.spec.keyed',
          '.spec.keyed[name="n",port=80]',
          '.spec.keyed[name="n",port=80].name',
          '.spec.keyed[name="n",port=80].port',
          '.spec.keyed[name="n",port=80].v',
          '.spec.list',
          '.spec.map',
          '.spec.map.a',
          '.spec.set',
          '.spec.set[="s"]',
          '.spec.x',
        ],
      },
    },
  ],
  'an apply owns its fields and their map entries, but not the named fields above them': [
    {
      by: 'apply alice',
      spec: {
        x: '1',
        nested: { a: '1' },
        map: { a: '1' },
        atomic: { z: '1' },
        set: ['s'],
        keyed: [{ name: 'n', port: 80, v: '1' }],
        free: { deep: { er: [1] } },
      },
      owners: {
        'alice Apply': [
          '.spec.atomic',
          '.spec.free.deep',
          '.spec.free.deep.er',
          '.spec.keyed[name="n",port=80]',
          '.spec.keyed[name="n",port=80].name',
          '.spec.keyed[name="n",port=80].port',
          '.spec.keyed[name="n",port=80].v',
          '.spec.map.a',
          '.spec.nested.a',
          '.spec.set[="s"]',
          '.spec.x',
        ],
      },
    },
  ],
  'an update takes over the fields that it changes, and removes managers without fields': [
    { by: 'create alice', spec: { x: '1' } },
    {
      by: 'update bob',
      spec: { x: '2', y: '1' },
      owners: { 'alice Update': ['.spec'], 'bob Update': ['.spec.x', '.spec.y'] },
    },
    { by: 'update carol', spec: { x: '2' }, owners: { 'alice Update': ['.spec'], 'bob Update': ['.spec.x'] } },
    { by: 'update bob', spec: { x: '2' }, owners: { 'alice Update': ['.spec'], 'bob Update': ['.spec.x'] } },
  ],
  'an apply conflicts when another manager set the field, and may be forced': [
    { by: 'create alice', spec: { x: '1', y: '1' } },
    {
      by: 'apply bob',
      spec: { x: '2' },
      conflict: `Apply failed with 1 conflict: conflict with "alice" using ${API_VERSION}: .spec.x`,
    },
    {
      by: 'apply bob',
      spec: { x: '2', y: '2' },
      conflict: `Apply failed with 2 conflicts: conflicts with "alice" using ${API_VERSION}:\n- .spec.x\n- .spec.y`,
    },
    {
      by: 'force bob',
      spec: { x: '2' },
      stored: { x: '2', y: '1' },
      owners: { 'alice Update': ['.spec', '.spec.y'], 'bob Apply': ['.spec.x'] },
    },
  ],
  'two appliers of one value share it, and it stays until both drop it': [
    { by: 'apply alice', spec: { x: '1', y: '1' } },
    {
      by: 'apply bob',
      spec: { x: '1' },
      stored: { x: '1', y: '1' },
      owners: { 'alice Apply': ['.spec.x', '.spec.y'], 'bob Apply': ['.spec.x'] },
    },
    { by: 'apply bob', spec: { x: '2' }, conflict: 'Apply failed with 1 conflict: conflict with "alice": .spec.x' },
    { by: 'apply alice', spec: { y: '1' }, stored: { x: '1', y: '1' } },
    { by: 'apply bob', spec: {}, stored: { y: '1' }, owners: { 'alice Apply': ['.spec.y'], 'bob Apply': ['.spec'] } },
  ],
  'fields that an applier drops are removed from maps, sets and keyed lists': [
    {
      by: 'apply alice',
      spec: {
        map: { a: '1', b: '1' },
        set: ['s', 't'],
        keyed: [
          { name: 'n', port: 80 },
          { name: 'm', port: 80 },
        ],
      },
    },
    {
      by: 'apply bob',
      spec: { map: { c: '1' }, set: ['t', 'u'], keyed: [{ name: 'm', port: 80, v: '1' }] },
      stored: {
        map: { a: '1', b: '1', c: '1' },
        set: ['s', 't', 'u'],
        keyed: [
          { name: 'n', port: 80 },
          { name: 'm', port: 80, v: '1' },
        ],
      },
    },
    {
      by: 'apply alice',
      spec: { map: { a: '1' }, set: ['s'], keyed: [] },
      stored: { map: { a: '1', c: '1' }, set: ['s', 't', 'u'], keyed: [{ name: 'm', port: 80, v: '1' }] },
    },
    {
      by: 'apply alice',
      spec: { x: '1' },
      stored: { x: '1', map: { c: '1' }, set: ['t', 'u'], keyed: [{ name: 'm', port: 80, v: '1' }] },
    },
  ],
  'a keyed item conflicts by field, and atomic values as a whole': [
    { by: 'apply alice', spec: { atomic: { a: '1' }, list: ['1'], keyed: [{ name: 'n', port: 80, v: '1' }] } },
    {
      by: 'apply bob',
      spec: { keyed: [{ name: 'n', port: 80, w: '1' }] },
      stored: {
        atomic: { a: '1' },
        list: ['1'],
        keyed: [{ name: 'n', port: 80, v: '1', w: '1' }],
      },
    },
    {
      by: 'apply bob',
      spec: { atomic: { b: '1' }, list: ['2'], keyed: [{ name: 'n', port: 80, v: '2' }] },
      conflict:
        'Apply failed with 3 conflicts: conflicts with "alice":\n- .spec.atomic\n' +
        '- .spec.list\n- .spec.keyed[name="n",port=80].v',
    },
  ],
  'an update takes an applied field over from the applier': [
    { by: 'apply alice', spec: { x: '1', keyed: [{ name: 'n', port: 80, v: '1' }] } },
    {
      by: 'update bob',
      spec: {
        x: '2',
        keyed: [
          { name: 'n', port: 80, v: '2' },
          { name: 'o', port: 1 },
        ],
      },
      owners: {
        'alice Apply': [
          '.spec.keyed[name="n",port=80]',
          '.spec.keyed[name="n",port=80].name',
          '.spec.keyed[name="n",port=80].port',
        ],
        'bob Update': [
          '.spec.keyed[name="n",port=80].v',
          '.spec.keyed[name="o",port=1]',
          '.spec.keyed[name="o",port=1].name',
          '.spec.keyed[name="o",port=1].port',
          '.spec.x',
        ],
      },
    },
  ],
};

export interface Outcome {
  spec?: JsonObject;
  owners?: Record<string, string[]>;
  conflict?: string;
}

export type Server = (
  name: string,
  step: Step,
  live: JsonObject | undefined,
) => Promise<{ object?: JsonObject; conflict?: string }>;

export function sent(name: string, step: Step, live: JsonObject | undefined): JsonObject {
  const metadata = (live?.metadata ?? {}) as JsonObject;
  const isWhole = /^(create|update)/.test(step.by);
  return {
    apiVersion: API_VERSION,
    kind: 'Field',
    metadata: { ...(isWhole ? metadata : {}), name, ...step.metadata },
    spec: structuredClone(step.spec),
  };
}

export const ours: Server = async (name, step, live) => {
  const [operation, manager = ''] = step.by.split(' ');
  const request = { manager, apiVersion: API_VERSION, subresource: '', schema: SCHEMA, now: new Date() };
  const object = sent(name, step, live);
  if (operation === 'create' || operation === 'update') {
    return { object: trackUpdate({ ...request, before: live, after: object }) };
  }
  const result = applyServerSide({ ...request, live, applied: object, force: operation === 'force' });
  return result.conflicts ? { conflict: result.conflicts.message } : { object: result.object };
};

/** Removes the times of conflicts, which the table of cases does not contain. */
const withoutTimes = (conflict: string) => conflict.replaceAll(/ at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '');

export const ownersOf = (object: JsonObject) =>
  Object.fromEntries(
    managersOf(object).map(({ manager, operation, fields }) => [`${manager} ${operation}`, paths(fields).sort()]),
  );

export async function run(server: Server, name: string, steps: readonly Step[]): Promise<Outcome[]> {
  let live: JsonObject | undefined;
  const outcomes: Outcome[] = [];
  for (const step of steps) {
    const { object, conflict } = await server(name, step, live);
    if (object) live = object;
    outcomes.push(
      conflict === undefined
        ? { spec: live?.spec as JsonObject, owners: ownersOf(live ?? {}) }
        : { conflict: withoutTimes(conflict) },
    );
  }
  return outcomes;
}

export function expectSteps(steps: readonly Step[], outcomes: readonly Outcome[]): void {
  steps.forEach((step, index) => {
    const outcome = outcomes[index];
    assert.is(outcome?.conflict, step.conflict, `${index} ${step.by}`);
    if (step.conflict !== undefined) return;
    assert.equal(outcome?.spec, step.stored ?? step.spec, `${index} ${step.by}`);
    if (step.owners) assert.equal(outcome?.owners, step.owners, `${index} ${step.by}`);
  });
}
