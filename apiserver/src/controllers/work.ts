/** A queue of keys. Each key is processed by one worker at a time. A failed key is retried with an increasing delay. */

import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf } from '@slipway/program';
import type { Logger } from 'pino';

const WORKERS = 16;
const BACKOFF = { firstMs: 40, maxMs: 10_000, jitter: 0 };

export class Work {
  readonly #process: (key: string) => Promise<void>;
  readonly #log: Logger;
  /** Bounded by the number of stored objects, because each key is queued only once. */
  readonly #waiting = new Set<string>();
  readonly #running = new Set<string>();
  readonly #failures = new Map<string, number>();
  #stopped = false;

  constructor(log: Logger, process: (key: string) => Promise<void>) {
    this.#log = log;
    this.#process = process;
  }

  add(key: string): void {
    if (this.#stopped) return;
    this.#waiting.add(key);
    setImmediate(() => this.#next());
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.clear();
  }

  #next(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= WORKERS) return;
      if (this.#running.has(key)) continue;
      this.#waiting.delete(key);
      this.#running.add(key);
      void this.#run(key);
    }
  }

  async #run(key: string): Promise<void> {
    try {
      await this.#process(key);
      this.#failures.delete(key);
    } catch (error) {
      await this.#pause(key, error as Error);
      this.#waiting.add(key);
    } finally {
      this.#running.delete(key);
      if (!this.#stopped) this.#next();
    }
  }

  async #pause(key: string, error: Error): Promise<void> {
    if (this.#stopped) return;
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    this.#log.warn({ key, failures, reason: error.message }, 'work failed');
    await sleep(delayOf(BACKOFF, failures), undefined, { ref: false });
  }
}
