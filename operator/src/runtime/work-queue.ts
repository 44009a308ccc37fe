/**
 * A queue of keys for workers. A key waits at most once, however often it is added, and is never with two workers at
 * once. A key that is added while a worker processes it waits until that work is done. So the queue is at most as long
 * as the number of objects.
 */
import { type Backoff, delayOf } from '@slipway/program';

export interface QueueObserver {
  depth(depth: number): void;
  waited(seconds: number): void;
  retried(): void;
}

export class WorkQueue {
  readonly #backoff: Backoff;
  readonly #observer: QueueObserver | undefined;
  /** Waiting keys in order, with the time at which each was added. */
  readonly #waiting = new Map<string, number>();
  /** Keys in work. True: the key was added again since. */
  readonly #working = new Map<string, boolean>();
  readonly #later = new Map<string, { at: number; timer: NodeJS.Timeout }>();
  readonly #failures = new Map<string, number>();
  readonly #takers: ((key: string | undefined) => void)[] = [];
  #closed = false;

  constructor(backoff: Backoff, observer?: QueueObserver) {
    this.#backoff = backoff;
    this.#observer = observer;
  }

  /** Adds `key` for work as soon as possible. The worker then decides again when to look next. */
  add(key: string): void {
    if (this.#closed) return;
    this.#cancelLater(key);
    if (this.#working.has(key)) {
      this.#working.set(key, true);
      return;
    }
    if (this.#waiting.has(key)) return;
    this.#waiting.set(key, performance.now());
    this.#observer?.depth(this.#waiting.size);
    this.#hand();
  }

  /** Adds `key` in `ms`. An earlier time that is already planned stays. */
  addAfter(key: string, ms: number): void {
    if (this.#closed) return;
    if (ms <= 0) return this.add(key);
    const at = performance.now() + ms;
    const planned = this.#later.get(key);
    if (planned && planned.at <= at) return;
    this.#cancelLater(key);
    this.#later.set(key, { at, timer: setTimeout(() => this.add(key), ms) });
  }

  /** Adds `key` after a delay that grows with each failure in a row. Returns the delay. */
  addFailed(key: string): number {
    this.#observer?.retried();
    return this.addUnexpected(key);
  }

  /** Does the same after an unexpected error, which does not count as a retry. */
  addUnexpected(key: string): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const delay = delayOf(this.#backoff, failures);
    this.addAfter(key, delay);
    return delay;
  }

  /** Resets the count of failures, after a success. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Resolves to the next key, or to undefined once the queue is closed. */
  take(): Promise<string | undefined> {
    return new Promise((resolve) => {
      this.#takers.push(resolve);
      this.#hand();
    });
  }

  /** Marks `key` as processed. */
  done(key: string): void {
    const again = this.#working.get(key);
    this.#working.delete(key);
    if (again) this.add(key);
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#later.values()) clearTimeout(timer);
    this.#later.clear();
    this.#waiting.clear();
    this.#hand();
  }

  #hand(): void {
    while (this.#takers.length > 0) {
      if (this.#closed) {
        this.#takers.shift()?.(undefined);
        continue;
      }
      const [next] = this.#waiting;
      if (!next) return;
      const [key, since] = next;
      this.#waiting.delete(key);
      this.#working.set(key, false);
      this.#observer?.depth(this.#waiting.size);
      this.#observer?.waited((performance.now() - since) / 1000);
      this.#takers.shift()?.(key);
    }
  }

  #cancelLater(key: string): void {
    clearTimeout(this.#later.get(key)?.timer);
    this.#later.delete(key);
  }
}
