/**
 * Mixed load. Each part makes one step after another, with a short pause, so that a small machine is busy but not
 * overloaded. In: the parts. Out: requests until the load is ended, and wrong responses. Called by the soak.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Requests } from './requests.js';

export interface Part {
  /** Sends a few requests, one after another. Throws if one failed, and throws `Wrong` for a wrong response. */
  step(): Promise<void>;
  /** Returns, afterwards and in words, acknowledged writes that are lost. */
  lost(): Promise<string[]>;
  /** Its counts, in words. */
  readonly summary: string;
}

/** A wrong response, which no outage excuses. */
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
        // An error without a failed request is a response of the platform too.
        const explained = requests.all.slice(before).some(({ failure }) => failure !== undefined);
        if (error instanceof Wrong || !explained) this.wrong.push(`${part.constructor.name}: ${error.message}`);
      });
      await sleep(random() * LONGEST_PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }
}
