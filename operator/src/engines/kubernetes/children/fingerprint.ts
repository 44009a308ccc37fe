/** Returns a short text that is equal for equal values, whatever the order of their keys. */
import { createHash } from 'node:crypto';

export const fingerprint = (value: unknown) =>
  createHash('sha256').update(canonical(value)).digest('base64url').slice(0, 22);

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
