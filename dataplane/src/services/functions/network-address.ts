/** Assigns an address to a project's functions, for limits by network. */
import { createHash } from 'node:crypto';

/**
 * Returns the caller address of a project's functions, whose sockets have none: a unique local address (RFC 4193) that
 * identifies the project by its first 48 bits.
 */
export function functionsAddress(ref: string): string {
  const hash = createHash('sha256').update(ref).digest('hex').slice(0, 10);
  return `${`fd${hash}`.match(/.{4}/g)?.join(':')}::1`;
}
