import { canonicalJson } from './equality.js';
import { isObject, type JsonSchema } from './json-schema.js';

/** Identifies an item of a list with `x-kubernetes-list-type: map`; missing keys count as absent. */
export function itemKey(item: unknown, keys: readonly string[]): string {
  if (!isObject(item)) return canonicalJson(item);
  return canonicalJson(keys.map((key) => item[key] ?? null));
}

/**
 * Finds the item of the old list that an item of the new one was: by key where the list is a map, by value in a set,
 * else not at all, as positions in a list tell nothing.
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
