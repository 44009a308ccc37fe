/** Returns the merge patch (RFC 7396) that turns `before` into `after`. Undefined if they are equal. */
import { isDeepStrictEqual } from 'node:util';

type Json = Record<string, unknown>;

export function mergePatch(before: Json, after: Json): Json | undefined {
  const patch: Json = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, next] = [before[key], after[key]];
    if (next === undefined) {
      if (old !== undefined) patch[key] = null;
    } else if (isObject(old) && isObject(next)) {
      const inner = mergePatch(old, next);
      if (inner) patch[key] = inner;
    } else if (!isDeepStrictEqual(old, next)) patch[key] = next;
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
