/**
 * Mixed load: each part of it makes one step after another, with a short pause between, so that a small machine is busy
 * and not drowned. In: the parts. Out: until it is ended, requests; and what was answered wrongly. Called by the soak.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Requests } from './requests.js';

export interface Part {
  /** A few requests, one after another. Throws when one failed, and `Wrong` when an answer is not what it must be. */
  step(): Promise<void>;
  /** Afterwards: in words, what was acknowledged and is not there. */
  lost(): Promise<string[]>;
  /** Its counts, in words. */
  readonly summary: string;
}

/** An answer came, and is wrong: no outage excuses it. */
export class Wrong extends Error {}

const LONGEST_PAUSE_MS = 160;

export class Load {
  readonly wrong: string[] = [];
  readonly #ending = new AbortController();
  readonly #running: Promise<unknown>;

  constructor(parts: readonly Part[], requests: Requests, random: () => number) {
    this.#running = Promise.all(parts.map((part) => this.#run(part, requests, random)));
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(part: Part, requests: Requests, random: () => number): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const before = requests.all.length;
      await part.step().catch((error: Error) => {
        // An error without a failed request is the platform's answer, too.
        const explained = requests.all.slice(before).some(({ failure }) => failure !== undefined);
        if (error instanceof Wrong || !explained) this.wrong.push(`${part.constructor.name}: ${error.message}`);
      });
      await sleep(random() * LONGEST_PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }
}
