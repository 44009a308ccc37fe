/**
 * How many databases of one account are read for changes at once. Each takes a replication slot of its Postgres server,
 * and of these there are few. In: who owns a project. Used by Changes.
 */
import type { Tenant } from '../../tenant.js';

/** A quarter of the slots of a server that projects share (max_replication_slots). */
const MOST = 25;

export class ReaderShares {
  /** By project, whose share it counts against. */
  readonly #held = new Map<string, string>();

  constructor(
    private readonly ownerOf: (ref: string) => string | undefined,
    private readonly most = MOST,
  ) {}

  /** False if the account has its share already. */
  take({ ref, owner: { host, port } }: Tenant): boolean {
    if (this.#held.has(ref)) return true;
    const share = `${this.ownerOf(ref) ?? ref} ${host}:${port}`;
    const count = [...this.#held.values()].filter((other) => other === share).length;
    if (count >= this.most) return false;
    this.#held.set(ref, share);
    return true;
  }

  release({ ref }: Tenant): void {
    this.#held.delete(ref);
  }
}
