import { canonicalJson } from '../schema/equality.js';
import { isObject, type JsonObject, type JsonSchema } from '../schema/json-schema.js';

/**
 * Defines how the value at a path merges, according to its schema. A leaf is one value: a scalar, an atomic map or an
 * atomic list. A map merges by field. A list has items that are identified by keys or by value. Without a schema, maps
 * merge by field, and lists are one value.
 */
export type Shape =
  | { kind: 'leaf' }
  | { kind: 'map'; fields: JsonObject }
  | { kind: 'list'; items: readonly unknown[]; stepOf(item: unknown): string; itemSchema: JsonSchema | undefined };

const LEAF: Shape = { kind: 'leaf' };

export function shapeOf(value: unknown, schema: JsonSchema | undefined): Shape {
  if (Array.isArray(value)) return listShape(value, schema);
  if (!isObject(value) || schema?.['x-kubernetes-map-type'] === 'atomic') return LEAF;
  return { kind: 'map', fields: value };
}

function listShape(items: readonly unknown[], schema: JsonSchema | undefined): Shape {
  const itemSchema = schema?.items;
  switch (schema?.['x-kubernetes-list-type']) {
    case 'set':
      return { kind: 'list', items, itemSchema, stepOf: (item) => `v:${canonicalJson(item)}` };
    case 'map': {
      const keys = schema['x-kubernetes-list-map-keys'] ?? [];
      return {
        kind: 'list',
        items,
        itemSchema,
        stepOf: (item) => `k:${canonicalJson(keysOf(item, keys, itemSchema))}`,
      };
    }
    default:
      return LEAF;
  }
}

function keysOf(item: unknown, keys: readonly string[], schema: JsonSchema | undefined): JsonObject {
  const fields = isObject(item) ? item : {};
  const values = keys.map((key) => [key, fields[key] ?? schema?.properties?.[key]?.default] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Returns the schema of field `name`, or undefined if it is unknown. */
export function fieldSchema(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  if (!schema) return undefined;
  if (isNamed(schema, name)) return schema.properties?.[name];
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
}

/**
 * True for a field that the schema names. It counts as owned only if something below it is. An entry of a map counts
 * itself.
 */
export const isNamed = (schema: JsonSchema | undefined, name: string) =>
  schema?.properties !== undefined && Object.hasOwn(schema.properties, name);

const TEXTS: JsonSchema = { type: 'object', additionalProperties: { type: 'string' } };
const TEXT: JsonSchema = { type: 'string' };

/** The schema of `metadata` in every object. */
const METADATA: JsonSchema = {
  type: 'object',
  properties: {
    name: TEXT,
    generateName: TEXT,
    namespace: TEXT,
    uid: TEXT,
    resourceVersion: TEXT,
    selfLink: TEXT,
    creationTimestamp: TEXT,
    deletionTimestamp: TEXT,
    generation: { type: 'integer' },
    deletionGracePeriodSeconds: { type: 'integer' },
    labels: TEXTS,
    annotations: TEXTS,
    finalizers: { type: 'array', 'x-kubernetes-list-type': 'set', items: TEXT },
    ownerReferences: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['uid'],
      items: { type: 'object', 'x-kubernetes-map-type': 'atomic' },
    },
    managedFields: { type: 'array', items: { type: 'object' } },
  },
};

const complete = new WeakMap<JsonSchema, JsonSchema>();
const SCHEMALESS: JsonSchema = { type: 'object', properties: { apiVersion: TEXT, kind: TEXT, metadata: METADATA } };

/** Returns an object's schema, extended by the fields that all objects have. */
export function objectSchema(schema: JsonSchema | undefined): JsonSchema {
  if (!schema) return SCHEMALESS;
  const known = complete.get(schema);
  if (known) return known;
  const made = { ...schema, properties: { ...schema.properties, ...SCHEMALESS.properties } };
  complete.set(schema, made);
  return made;
}
