/**
 * Logs requests that were not served: rejections of a key or token by the gateway or a service, which may be an attack,
 * and failures. Lines are throttled per second.
 */
import { isStoredLog, type ServiceLogLevel } from '@slipway/installation';
import { LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import type { Decision } from '../identity/credentials.js';
import type { Facts, OwnerLog } from '../logs/owner-log.js';
import type { ServiceAddress } from './address.js';

/** Maximum length of a logged path, because callers choose the path. */
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

interface OwnerWords {
  message: string;
  facts: Facts;
}

export class AttemptLog {
  readonly #refused: LogThrottle;
  readonly #failed: LogThrottle;
  readonly #otherHosts: LogThrottle;

  /** `owner`: gets a line for each rejected request of a service. */
  constructor(
    private readonly log: Logger,
    private readonly owner?: OwnerLog,
  ) {
    this.#refused = new LogThrottle((leftOut, ref) => log.info({ ref, leftOut }, 'more callers rejected'));
    this.#failed = new LogThrottle((leftOut, ref) => log.error({ ref, leftOut }, 'more requests failed'));
    this.#otherHosts = new LogThrottle((leftOut) =>
      log.warn({ leftOut }, 'more requests for other host names rejected'),
    );
  }

  refused(decision: Refused, attempt: Attempt): void {
    const problem = decision.refused === 'no-key' ? undefined : decision.problem.kind;
    this.#writeRefused({ reason: decision.refused, problem }, attempt);
    this.#writeForOwner(attempt, 'warn', {
      message: 'key or token rejected',
      facts: { reason: problem ?? decision.refused },
    });
  }

  /**
   * Logs a rejection by the service itself, such as a role without the right, or a wrong password. `code`: that of the
   * service's error.
   */
  answered({ status, code }: { status: number; code: string | undefined }, attempt: Attempt): void {
    if (status >= 400) {
      const level = status >= 500 ? 'error' : 'warn';
      this.#writeForOwner(attempt, level, { message: 'request rejected', facts: { status, code } });
    }
    if (status === 401 || status === 403) this.#writeRefused({ reason: 'by-the-service', status }, attempt);
  }

  /** Logs a failure. `words` is the message. */
  failed(error: unknown, words: string, attempt: Attempt): void {
    if (this.#failed.take(attempt.ref)) this.log.error({ ...fieldsOf(attempt), err: error }, words);
  }

  /** Logs a request for a host name that is not the platform's: a missing setting, or an attack. */
  otherHost(host: string, requestId: string, address: string): void {
    if (!this.#otherHosts.take('')) return;
    const fields = { host: host.slice(0, MAX_HOST_LENGTH), requestId, address };
    this.log.warn(fields, 'request for another host name rejected');
  }

  close(): void {
    this.#otherHosts.close();
    this.#refused.close();
    this.#failed.close();
  }

  #writeForOwner(
    { ref, place, method, requestId }: Attempt,
    level: ServiceLogLevel,
    { message, facts }: OwnerWords,
  ): void {
    if (!this.owner || !isStoredLog(place.service)) return;
    const request = { method, path: place.path.slice(0, MAX_PATH_LENGTH), request_id: requestId };
    this.owner.write(ref, place.service, { level, message, facts: { ...request, ...facts } });
  }

  #writeRefused(why: object, attempt: Attempt): void {
    if (this.#refused.take(attempt.ref)) this.log.info({ ...fieldsOf(attempt), ...why }, 'caller rejected');
  }
}

/** Leaves out query, headers and claims, because they may contain secrets. */
function fieldsOf({ ref, place, requestId, method, address }: Attempt) {
  return { ref, service: place.service, method, path: place.path.slice(0, MAX_PATH_LENGTH), requestId, address };
}
