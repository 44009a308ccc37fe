/**
 * Detects which projects the data plane has paused, so that their status soon reports it. In: the response of each data
 * plane at PAUSES_PATH, every few seconds. Out: a call for each project whose pause begins or ends, and the reason of a
 * pause. Used by both engines.
 */
import { hashedRef, PAUSES_PATH } from '@slipway/installation';
import { parseJson, readBounded } from '@slipway/program';
import type { Logger } from 'pino';
import { Agent } from 'undici';
import { every } from '../runtime/every.js';

export interface PauseWatchOptions {
  /** Returns the URL of each data plane. */
  origins(): Promise<readonly string[]>;
  /** The refs of all projects. */
  refs(): Iterable<string>;
  onChange(ref: string): void;
  log: Logger;
}

const LOOK_MS = 5_000;
const TIMEOUT_MS = 3_000;
/** Limits of a response: a data plane pauses at most 32 projects. */
const BOUND = { bytes: 16 * 1024, depth: 2, values: 200 };

export class PauseWatch {
  readonly #options: PauseWatchOptions;
  readonly #agent = new Agent({ connections: 1, allowH2: false, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
  /** The reason of each pause by the hash of its project's ref. */
  #reasons: ReadonlyMap<string, string> = new Map();
  #stop: () => void = () => undefined;

  constructor(options: PauseWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stop = every(LOOK_MS, 'looking for paused projects', () => this.look(), this.#options.log);
  }

  /** Returns the reason why the project is paused. Undefined: no data plane has paused it. */
  find(ref: string): string | undefined {
    return this.#reasons.size > 0 ? this.#reasons.get(hashedRef(ref)) : undefined;
  }

  async look(): Promise<void> {
    const { origins, refs, onChange } = this.#options;
    const before = this.#reasons;
    const read = await Promise.all((await origins()).map((origin) => this.#read(origin)));
    this.#reasons = new Map(read.flat());
    const isPaused = this.#reasons;
    if (before.size === 0 && isPaused.size === 0) return;
    for (const ref of refs()) {
      const key = hashedRef(ref);
      if (before.has(key) !== isPaused.has(key)) onChange(ref);
    }
  }

  /** Reads the pauses of one data plane. Without a response it counts as having none. */
  async #read(origin: string): Promise<[string, string][]> {
    try {
      const { statusCode, body } = await this.#agent.request({ origin, path: PAUSES_PATH, method: 'GET' });
      const text = await readBounded(body, BOUND.bytes);
      const { paused = {} } = statusCode === 200 ? (parseJson(text, BOUND) as { paused?: Record<string, string> }) : {};
      return Object.entries(paused);
    } catch {
      return [];
    }
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#agent.destroy();
  }
}
