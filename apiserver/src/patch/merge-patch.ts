/** Applies a merge patch (RFC 7396). Changes `target`, which the caller owns, and returns it. */
import { isObject } from '../schema/json-schema.js';

export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = isObject(target) ? target : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (key === '__proto__') continue;
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}
