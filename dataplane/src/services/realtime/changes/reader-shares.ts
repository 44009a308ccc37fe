/**
 * Limits how many databases of one account are read for changes, because each needs one of the few replication slots of
 * its server. In: the owner of a project. Used by Changes.
 */
import { Counts } from '@slipway/program';
import type { BackendTenant } from '../../../projects/tenant.js';

/** Maximum number of databases of one account: a quarter of the slots of a shared server (max_replication_slots). */
const MOST = 25;

export class ReaderShares {
  /** Share that each project counts against. */
  readonly #shareOf = new Map<string, string>();
  readonly #counts = new Counts();

  constructor(
    private readonly ownerOf: (ref: string) => string | undefined,
    private readonly most = MOST,
  ) {}

  /** Returns false if the account has reached its share. */
  take({ ref, owner: { host, port } }: BackendTenant): boolean {
    if (this.#shareOf.has(ref)) return true;
    const share = `${this.ownerOf(ref) ?? ref} ${host}:${port}`;
    if (this.#counts.of(share) >= this.most) return false;
    this.#counts.add(share);
    this.#shareOf.set(ref, share);
    return true;
  }

  release({ ref }: BackendTenant): void {
    const share = this.#shareOf.get(ref);
    if (share === undefined) return;
    this.#shareOf.delete(ref);
    this.#counts.remove(share);
  }
}
