import { canonicalJson } from './equality.js';
import { isObject, type JsonSchema } from './json-schema.js';

/** Returns the identity of an item in a list with `x-kubernetes-list-type: map`. Missing keys count as absent. */
export function itemKey(item: unknown, keys: readonly string[]): string {
  if (!isObject(item)) return canonicalJson(item);
  return canonicalJson(keys.map((key) => item[key] ?? null));
}

/**
 * Returns the old item that a new item corresponds to: by key if the list is a map, by value in a set. Other lists have
 * no correspondence, because positions may change.
 */
export function correlateItems(
  schema: JsonSchema,
): ((old: readonly unknown[]) => (item: unknown) => unknown) | undefined {
  const listType = schema['x-kubernetes-list-type'];
  if (listType !== 'map') return undefined;
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  return (old) => {
    const byKey = new Map(old.map((item) => [itemKey(item, keys), item]));
    return (item) => byKey.get(itemKey(item, keys));
  };
}
