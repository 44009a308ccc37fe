/**
 * The loop of a controller. It takes a key, reconciles it, and then does one of these: reconcile again later, retry, or
 * finish. In: keys from a queue. Out: calls of `reconcile`, never two at once for one key. An error that a reconcile
 * throws stops no worker.
 */
import { underWay } from '@slipway/program';
import type { Logger } from 'pino';
import { isTransient, loggableError, type UnexpectedFailure } from './failures.js';
import type { ControllerMetrics } from './metrics.js';
import type { WorkQueue } from './work-queue.js';

/** The result of a reconcile. If it throws a transient error, that is a retry. Any other error is unexpected. */
export type Outcome =
  | { kind: 'done' }
  /** All is well or in progress: look again after `afterMs`. */
  | { kind: 'again'; afterMs: number }
  /** The reconcile failed: retry after a delay that grows with each failure in a row. */
  | { kind: 'retry'; why: string }
  /**
   * Steps threw errors that no code expects. Each error is logged with its stack and counted. Then the key is retried.
   */
  | { kind: 'unexpected'; failures: readonly UnexpectedFailure[] };

export interface ControllerOptions {
  queue: WorkQueue;
  reconcile(key: string, signal: AbortSignal): Promise<Outcome>;
  workers: number;
  metrics: ControllerMetrics;
  log: Logger;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #stop = new AbortController();
  #workers: Promise<void>[] = [];

  constructor(options: ControllerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#workers = Array.from({ length: this.#options.workers }, () => this.#work());
  }

  /** Resolves when every running reconcile has ended. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#options.queue.close();
    await Promise.all(this.#workers);
  }

  async #work(): Promise<void> {
    const { queue } = this.#options;
    for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
      await this.#once(key);
      queue.done(key);
    }
  }

  async #once(key: string): Promise<void> {
    const { queue, reconcile, metrics, log } = this.#options;
    const finish = metrics.begin();
    underWay(key, 'reconcile');
    const outcome = await attempt(() => reconcile(key, this.#stop.signal));
    switch (outcome.kind) {
      case 'done':
        queue.forget(key);
        break;
      case 'again':
        queue.forget(key);
        queue.addAfter(key, outcome.afterMs);
        break;
      case 'retry': {
        const retryMs = queue.addFailed(key);
        log.warn({ key, why: outcome.why, retryMs }, 'reconcile failed; retried');
        break;
      }
      case 'unexpected': {
        const retryMs = queue.addUnexpected(key);
        for (const { step, error } of outcome.failures) {
          metrics.unexpected(step);
          log.error({ key, step, ...loggableError(error), retryMs }, 'reconcile failed unexpectedly');
        }
        break;
      }
    }
    finish(outcome.kind);
  }
}

async function attempt(reconcile: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await reconcile();
  } catch (error) {
    if (isTransient(error)) return { kind: 'retry', why: (error as Error).message };
    return { kind: 'unexpected', failures: [{ step: 'reconcile', error }] };
  }
}
