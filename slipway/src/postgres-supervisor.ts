/** Postgres kept up: started again when it ends though nobody asked. In: how to start it. Called by the supervisor. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type PostgresOptions, type PostgresServer, startPostgres } from '@slipway/postgres';
import { backoffMs } from './backoff.js';

const STOP_PATIENCE_MS = 60_000;

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

  /** The first start: a failure is the caller's. */
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
      const delay = backoffMs(failures);
      this.#onEnd(delay);
      await sleep(delay, undefined, { signal: this.#stopped.signal }).catch(() => {});
      if (this.#stopped.signal.aborted) return;
      this.#server = await startPostgres(this.#options).catch(() => undefined);
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    const immediately = setTimeout(() => this.kill(), STOP_PATIENCE_MS);
    await this.#server?.stop('fast');
    // A start that was under way when the stop came is ended too.
    await this.#keeping;
    await this.#server?.stop('fast');
    clearTimeout(immediately);
  }

  /** Without waiting; the next start recovers. */
  kill(): void {
    this.#stopped.abort();
    void this.#server?.stop('immediate');
  }
}
