/**
 * Reads one log in several places, such as gateways or pods. In: a read of each place. Out: the results of those that
 * succeeded. An unavailable place hides nothing of the others.
 */
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import { type Problem, retryLater } from '../http/problem.js';
import { LOG } from '../settings/injected.js';

const RETRY_SECONDS = 5;

@Injectable()
export class PartialReads implements OnApplicationShutdown {
  private readonly failures: LogThrottle;

  constructor(@Inject(LOG) private readonly log: Logger) {
    this.failures = new LogThrottle((leftOut) => log.warn({ leftOut }, 'more parts of logs not read'));
  }

  onApplicationShutdown(): void {
    this.failures.close();
  }

  /** Throws if there are places, but none could be read. */
  async all<T>(reads: readonly Promise<T>[]): Promise<T[]> {
    const results = await Promise.allSettled(reads);
    const values = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed && values.length === 0) throw logUnavailable(failed.reason);
    if (failed && this.failures.take('')) this.log.warn({ err: failed.reason }, 'part of a log not read');
    return values;
  }
}

export const logUnavailable = (cause: unknown): Problem =>
  retryLater('unavailable', 'The log can not be read now. Try again.', RETRY_SECONDS, { cause });
