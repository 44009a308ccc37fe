/**
 * Limits how much work runs at once: for one key, such as a project or a network, and for all keys. In: a key and the
 * work. Out: the result of the work, or an error if too much work is running and waiting. A limit without keys uses one
 * key for all work.
 *
 * Waiting work starts in turns. The first is work of the key with the least running work; among several such keys, it
 * is the key that has waited longest since its last turn. A key with much work does not delay other keys.
 */
import { Counts, type Share } from './counts.js';

export interface ConcurrencyBounds extends Share {
  /** Most waiting work, of all keys together. Default: none, so that work without room is rejected at once. */
  waiting?: number;
  waitingOfOne?: number;
  /**
   * True if a key without waiting work may wait although the queue is full, so that other keys can't block it by
   * filling the queue. Use it only for keys of bounded number, such as projects.
   */
  firstMayWait?: boolean;
}

/** Limit that rejected the work: that of its key, or that of all keys. */
export type ReachedBound = 'key' | 'all';

export class ConcurrencyLimitReached extends Error {}

export class ConcurrencyLimit {
  readonly #running = new Counts();
  /** Callbacks that start the waiting work, by key in the order of their turns. No key has an empty list. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #waitingInAll = 0;
  readonly #onIdle: (() => void)[] = [];

  /** `refusal` makes the error of rejected work. */
  constructor(
    private readonly bounds: ConcurrencyBounds,
    private readonly refusal: (reached: ReachedBound, key: string) => Error = () => new ConcurrencyLimitReached(),
  ) {}

  get running(): number {
    return this.#running.all;
  }

  get waiting(): number {
    return this.#waitingInAll;
  }

  runningOf(key: string): number {
    return this.#running.of(key);
  }

  /** True if `run` would reject work of the key now. */
  isFull(key: string): boolean {
    return !this.#running.hasRoom(key, this.bounds) && !this.#mayWait(key);
  }

  /** Runs the work, at once if there is room. If `signal` aborts before its start, it never starts. */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    // A key with room has no waiting work, because each end starts everything that may run.
    if (this.#running.hasRoom(key, this.bounds)) this.#running.add(key);
    else await this.#turn(key, signal);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      this.#running.remove(key);
      this.#beginNext();
    }
  }

  /** Resolves once nothing is running or waiting. */
  async idle(): Promise<void> {
    if (this.running > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  #mayWait(key: string): boolean {
    const { waiting = 0, waitingOfOne = waiting, firstMayWait = false } = this.bounds;
    const own = this.#waiting.get(key)?.length ?? 0;
    if (own === 0 && firstMayWait) return true;
    return own < waitingOfOne && this.#waitingInAll < waiting;
  }

  /** Resolves when work of the key may start, and counts it. */
  #turn(key: string, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#mayWait(key)) throw this.refusal(this.#reachedBy(key), key);
    return new Promise((resolve, reject) => {
      const own = this.#waiting.get(key) ?? [];
      const giveUp = () => {
        own.splice(own.indexOf(begin), 1);
        this.#left(key, own);
        reject(signal?.reason);
      };
      const begin = () => {
        signal?.removeEventListener('abort', giveUp);
        resolve();
      };
      signal?.addEventListener('abort', giveUp, { once: true });
      own.push(begin);
      this.#waiting.set(key, own);
      this.#waitingInAll++;
    });
  }

  #reachedBy(key: string): ReachedBound {
    const { most, ofOne = Infinity } = this.bounds;
    return this.#running.all < most || this.#running.of(key) >= ofOne ? 'key' : 'all';
  }

  #left(key: string, own: readonly unknown[]): void {
    this.#waitingInAll--;
    if (own.length === 0) this.#waiting.delete(key);
  }

  #beginNext(): void {
    for (let key = this.#nextKey(); key !== undefined; key = this.#nextKey()) {
      const own = this.#waiting.get(key) as (() => void)[];
      const begin = own.shift() as () => void;
      // Moves the key to the end of the order.
      this.#waiting.delete(key);
      this.#waiting.set(key, own);
      this.#left(key, own);
      this.#running.add(key);
      begin();
    }
    if (this.#running.all > 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Checks at most one key more than are running. */
  #nextKey(): string | undefined {
    if (this.#running.all >= this.bounds.most) return undefined;
    let next: string | undefined;
    let fewest = Infinity;
    for (const key of this.#waiting.keys()) {
      const running = this.#running.of(key);
      if (running < fewest && this.#running.hasRoom(key, this.bounds)) [next, fewest] = [key, running];
      if (fewest === 0) break;
    }
    return next;
  }
}
