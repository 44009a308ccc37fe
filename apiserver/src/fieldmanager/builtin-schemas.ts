import type { JsonSchema } from '../schema/json-schema.js';

const TEXT: JsonSchema = { type: 'string' };
const TEXTS: JsonSchema = { type: 'object', additionalProperties: TEXT };

const keyedList = (...keys: string[]): JsonSchema => ({
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
  items: { type: 'object', properties: Object.fromEntries(keys.map((key) => [key, TEXT])) },
});

/** Schema of a reference to another object, which counts as one value. */
const REFERENCE: JsonSchema = { type: 'object', 'x-kubernetes-map-type': 'atomic' };

const SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  'v1/Namespace': {
    type: 'object',
    properties: {
      spec: { type: 'object', properties: { finalizers: { type: 'array' } } },
      status: { type: 'object', properties: { phase: TEXT, conditions: keyedList('type') } },
    },
  },
  'v1/Secret': {
    type: 'object',
    properties: { data: TEXTS, stringData: TEXTS, type: TEXT, immutable: { type: 'boolean' } },
  },
  'v1/ConfigMap': {
    type: 'object',
    properties: { data: TEXTS, binaryData: TEXTS, immutable: { type: 'boolean' } },
  },
  'v1/Event': {
    type: 'object',
    properties: { involvedObject: REFERENCE, related: REFERENCE, source: { type: 'object', properties: {} } },
  },
  'apiextensions.k8s.io/v1/CustomResourceDefinition': {
    type: 'object',
    properties: {
      spec: { type: 'object', properties: {} },
      status: { type: 'object', properties: { conditions: keyedList('type') } },
    },
  },
};

/** Returns how the lists of a built-in kind merge, or undefined if all are atomic. */
export const builtinSchema = (apiVersion: string, kind: string): JsonSchema | undefined =>
  SCHEMAS[`${apiVersion}/${kind}`];
