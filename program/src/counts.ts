/** Counts resources in use by key, such as a caller, project or account. A key at zero has no entry. */

/** Limits of one key and of all keys. */
export interface Share {
  /** Limit of all keys together. */
  most: number;
  ofOne?: number;
  /**
   * Share for each free place: with 1/4 a single key leaves four fifths to others, and any number of keys leaves some
   * for a further one. A key at zero may always use one.
   */
  perFree?: number;
}

export class Counts {
  readonly #counts = new Map<string, number>();
  #all = 0;

  /** Sum over all keys. */
  get all(): number {
    return this.#all;
  }

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
    this.#all++;
  }

  /** Changes nothing for a key at zero. */
  remove(key: string): void {
    const left = this.of(key) - 1;
    if (left < 0) return;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
    this.#all--;
  }

  /** True if the key may use one more. */
  hasRoom(key: string, { most, ofOne = Infinity, perFree = Infinity }: Share): boolean {
    const free = most - this.#all;
    return free > 0 && this.of(key) < Math.min(ofOne, Math.max(1, free * perFree));
  }
}
