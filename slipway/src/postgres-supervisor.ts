/**
 * Keeps Postgres running: starts it again after an unexpected end. In: the options of a start. Called by the
 * supervisor.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type PostgresOptions, type PostgresServer, startPostgres } from '@slipway/postgres';
import { delayOf } from '@slipway/program';
import { RESTARTS } from './program.js';

export class PostgresSupervisor {
  #server: PostgresServer | undefined;
  #stopped = new AbortController();
  #keeping: Promise<void> = Promise.resolve();
  readonly #options: PostgresOptions;
  readonly #onEnd: (restartMs: number) => void;

  constructor(options: PostgresOptions, onEnd: (restartMs: number) => void) {
    this.#options = options;
    this.#onEnd = onEnd;
  }

  /** Starts the server for the first time. A failure is the caller's to handle. */
  async start(): Promise<void> {
    this.#server = await startPostgres(this.#options);
    this.#keeping = this.#keep();
  }

  async #keep(): Promise<void> {
    for (let failures = 1; !this.#stopped.signal.aborted; failures++) {
      const startedAt = performance.now();
      await this.#server?.exited;
      if (this.#stopped.signal.aborted) return;
      if (performance.now() - startedAt > 60_000) failures = 1;
      const delay = delayOf(RESTARTS, failures);
      this.#onEnd(delay);
      await sleep(delay, undefined, { signal: this.#stopped.signal }).catch(() => {});
      if (this.#stopped.signal.aborted) return;
      this.#server = await startPostgres(this.#options).catch(() => undefined);
    }
  }

  /**
   * Disconnects all clients and writes a checkpoint. After `patienceMs` it kills the server, and the next start
   * recovers.
   */
  async stop(patienceMs: number): Promise<void> {
    this.#stopped.abort();
    const immediately = setTimeout(() => this.kill(), patienceMs);
    await this.#server?.stop('fast');
    // A start that was in progress when the stop came is aborted too.
    await this.#keeping;
    await this.#server?.stop('fast');
    clearTimeout(immediately);
  }

  /** Kills the server without waiting. The next start recovers. */
  kill(): void {
    this.#stopped.abort();
    void this.#server?.stop('immediate');
  }
}
