/**
 * How many requests an address may send to one project in a second; one more is refused until the second is over.
 * Counts are of the present second alone and of a bounded number of addresses; all beyond those share one count.
 */
import { networkOf } from '../network-address.js';

const ADDRESSES = 10_000;
const WINDOW_MS = 1_000;

/**
 * Where no limit was set: for each address but this machine's own, where programs and proxies of the platform's call.
 */
const DEFAULT_RATE_LIMIT = 1_000;

interface Count {
  requests: number;
}

export class RateLimit {
  readonly #perSecond: number;
  readonly #sparesLoopback: boolean;
  readonly #counts = new Map<string, Map<string, Count>>();
  readonly #others: Count = { requests: 0 };
  #addresses = 0;
  #turn: NodeJS.Timeout | undefined;

  /** 0: no limit. */
  constructor(perSecond: number | undefined) {
    this.#perSecond = perSecond ?? DEFAULT_RATE_LIMIT;
    this.#sparesLoopback = perSecond === undefined;
  }

  exceeded(ref: string, address: string): boolean {
    if (this.#perSecond === 0) return false;
    if (this.#sparesLoopback && isLoopback(address)) return false;
    return ++this.#countOf(ref, networkOf(address)).requests > this.#perSecond;
  }

  close(): void {
    clearTimeout(this.#turn);
  }

  #countOf(ref: string, address: string): Count {
    const ofProject = this.#counts.get(ref);
    const known = ofProject?.get(address);
    if (known) return known;
    if (this.#addresses >= ADDRESSES) return this.#others;
    const count = { requests: 0 };
    if (ofProject) ofProject.set(address, count);
    else this.#counts.set(ref, new Map([[address, count]]));
    this.#addresses++;
    this.#turn ??= setTimeout(() => this.#forget(), WINDOW_MS).unref();
    return count;
  }

  #forget(): void {
    this.#turn = undefined;
    this.#counts.clear();
    this.#addresses = 0;
    this.#others.requests = 0;
  }
}

const isLoopback = (address: string) =>
  address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.');
