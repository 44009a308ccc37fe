/**
 * What pools do when their Postgres admits no more connections: the others of this process give back those that do nothing. In: pools as
 * they open and end. A server that many projects share is sure to have been sized for fewer connections than all of them could hold.
 */
import type { ConnectionError } from './errors.js';

interface Holder {
  /** Closes connections that nobody uses now, and tells how many. */
  closeIdle(): number;
}

/** `too_many_connections`, of the server, the database or the role. */
const TOO_MANY_CONNECTIONS = '53300';

/** By `host:port`. */
const holders = new Map<string, Set<Holder>>();

export function holdsAt(address: string, holder: Holder): void {
  const known = holders.get(address) ?? new Set();
  holders.set(address, known.add(holder));
}

export function holdsNoMoreAt(address: string, holder: Holder): void {
  const known = holders.get(address);
  known?.delete(holder);
  if (known?.size === 0) holders.delete(address);
}

export function makeRoomAt(address: string): void {
  for (const holder of holders.get(address) ?? []) holder.closeIdle();
}

export const isFull = (error: unknown) =>
  ((error as ConnectionError).cause as { code?: string } | undefined)?.code === TOO_MANY_CONNECTIONS;
