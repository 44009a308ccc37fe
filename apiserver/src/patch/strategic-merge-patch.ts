/**
 * Applies a strategic merge patch to a built-in kind. Maps are merged and lists are replaced, with two exceptions:
 * metadata.finalizers is merged as a set, and metadata.ownerReferences by uid. Changes `target`, which the caller owns,
 * and returns it.
 */
import { isObject, type JsonObject } from '../schema/json-schema.js';

const DIRECTIVE = /^\$(setElementOrder|retainKeys|deleteFromPrimitiveList)(\/|$)/;
const DELETE_FROM = '$deleteFromPrimitiveList/';

export function strategicMergePatch(target: unknown, patch: JsonObject, path = ''): unknown {
  if (patch.$patch === 'delete') return undefined;
  if (patch.$patch === 'replace') {
    const { $patch: _, ...rest } = patch;
    return rest;
  }
  const result = isObject(target) ? target : {};
  for (const [key, value] of Object.entries(patch)) mergeKey(result, key, value, path ? `${path}.${key}` : key);
  return result;
}

function mergeKey(result: JsonObject, key: string, value: unknown, path: string): void {
  if (key.startsWith(DELETE_FROM)) return deleteFrom(result, key.slice(DELETE_FROM.length), value);
  if (DIRECTIVE.test(key) || key === '$patch' || key === '__proto__') return;
  if (value === null) delete result[key];
  else if (Array.isArray(value)) result[key] = mergeList(path, result[key], value);
  else if (isObject(value)) assign(result, key, strategicMergePatch(result[key], value, path));
  else result[key] = value;
}

function assign(result: JsonObject, key: string, value: unknown): void {
  if (value === undefined) delete result[key];
  else result[key] = value;
}

function deleteFrom(result: JsonObject, key: string, gone: unknown): void {
  const list = result[key];
  if (Array.isArray(list) && Array.isArray(gone)) result[key] = list.filter((item) => !gone.includes(item));
}

function mergeList(path: string, current: unknown, patch: unknown[]): unknown[] {
  const list = Array.isArray(current) ? current : [];
  if (path === 'metadata.finalizers') return [...new Set([...list, ...patch])];
  if (path === 'metadata.ownerReferences') return mergeByUid(list as JsonObject[], patch as JsonObject[]);
  return patch;
}

function mergeByUid(list: JsonObject[], patch: JsonObject[]): JsonObject[] {
  const merged = new Map(list.map((item) => [item.uid, item]));
  for (const item of patch) {
    if (item.$patch === 'delete') merged.delete(item.uid);
    else if (item.$patch !== 'replace') merged.set(item.uid, { ...merged.get(item.uid), ...item });
  }
  return [...merged.values()];
}
