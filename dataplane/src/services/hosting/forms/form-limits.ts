/**
 * Limits of forms by rate. In: a project and the visitor's address. Out: whether the entry is accepted, stored as
 * flagged, or rejected. Each limit counts a network and the whole project, because a visitor may have many networks.
 */
import { isLoopback, networkOf, type Rate, TokenBuckets } from '@slipway/program';

/** Entries that are stored without a flag. */
const UNFLAGGED: Limits = { network: { burst: 10, perSecond: 1 / 10 }, project: { burst: 100, perSecond: 1 } };
/** Entries that are stored at all. */
const STORED: Limits = { network: { burst: 60, perSecond: 1 }, project: { burst: 300, perSecond: 10 } };

interface Limits {
  network: Rate;
  project: Rate;
}

export class FormLimits {
  readonly #unflagged = new Pair(UNFLAGGED);
  readonly #stored = new Pair(STORED);

  /** Returns the seconds until the project accepts another entry from the address; 0: now. */
  wait(ref: string, address: string): number {
    return this.#stored.take(ref, address);
  }

  /** True if the entry is one of too many, and is stored as flagged. */
  isFlagged(ref: string, address: string): boolean {
    return this.#unflagged.take(ref, address) > 0;
  }
}

class Pair {
  readonly #networks: TokenBuckets;
  readonly #projects: TokenBuckets;

  constructor({ network, project }: Limits) {
    this.#networks = new TokenBuckets(network);
    this.#projects = new TokenBuckets(project);
  }

  /** A proxy on this machine sends the requests of many visitors. */
  take(ref: string, address: string): number {
    const network = isLoopback(address) ? 0 : this.#networks.of(`${ref} ${networkOf(address)}`).take();
    return network > 0 ? network : this.#projects.of(ref).take();
  }
}
