/**
 * Logs requests that were not served: those whose key or token the gateway or a service rejected, for whoever looks for
 * an attack, and those that failed. Both are log lines, throttled per second.
 */
import type { Logger } from 'pino';
import type { ServiceAddress } from './address.js';
import type { Decision } from './credentials.js';
import { LogThrottle } from './log-throttle.js';

/** Callers choose the path, and may make it long. */
const MAX_PATH_LENGTH = 200;
const MAX_HOST_LENGTH = 200;

export type Refused = Exclude<Decision, { caller: unknown }>;

export interface Attempt {
  ref: string;
  place: ServiceAddress;
  requestId: string;
  method: string;
  /** The caller's IP address. */
  address: string;
}

export class AttemptLog {
  readonly #refused: LogThrottle;
  readonly #failed: LogThrottle;
  readonly #otherHosts: LogThrottle;

  constructor(private readonly log: Logger) {
    const words = (end: string, ref?: string) =>
      `more callers${ref ? ' of the project' : ''} ${end} in the same second`;
    this.#refused = new LogThrottle((leftOut, ref) => log.info({ ref, leftOut }, words('were refused', ref)));
    this.#failed = new LogThrottle((leftOut, ref) => log.error({ ref, leftOut }, words('were failed', ref)));
    this.#otherHosts = new LogThrottle((leftOut) =>
      log.warn({ leftOut }, 'more requests for other host names refused'),
    );
  }

  refused(decision: Refused, attempt: Attempt): void {
    const problem = decision.refused === 'invalid-token' ? decision.problem.kind : undefined;
    this.#writeRefused({ reason: decision.refused, problem }, attempt);
  }

  /** Records a rejection by the service itself: the role may not do this, or the user's password is wrong. */
  answered(status: number, attempt: Attempt): void {
    if (status === 401 || status === 403) this.#writeRefused({ reason: 'by-the-service', status }, attempt);
  }

  /** `words`: what failed. */
  failed(error: unknown, words: string, attempt: Attempt): void {
    if (this.#failed.take(attempt.ref)) this.log.error({ ...fieldsOf(attempt), err: error }, words);
  }

  /** A request for a host name that the platform does not answer for: a forgotten setting, or an attack. */
  otherHost(host: string, requestId: string, address: string): void {
    if (!this.#otherHosts.take('')) return;
    const fields = { host: host.slice(0, MAX_HOST_LENGTH), requestId, address };
    this.log.warn(fields, 'request for another host name refused');
  }

  close(): void {
    this.#otherHosts.close();
    this.#refused.close();
    this.#failed.close();
  }

  #writeRefused(why: object, attempt: Attempt): void {
    if (this.#refused.take(attempt.ref)) this.log.info({ ...fieldsOf(attempt), ...why }, 'caller rejected');
  }
}

/** Neither the query nor any header nor what a token says is written: all may hold secrets. */
function fieldsOf({ ref, place, requestId, method, address }: Attempt) {
  return { ref, service: place.service, method, path: place.path.slice(0, MAX_PATH_LENGTH), requestId, address };
}
