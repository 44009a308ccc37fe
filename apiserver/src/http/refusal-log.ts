/**
 * Logs callers without a valid token, so that an attack can be detected. In: each request that gets 401. Out: log
 * lines, throttled per second.
 */
import { LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import type { Request } from './request.js';

/** Maximum length of a logged path, because callers choose the path. */
const MAX_PATH_LENGTH = 200;

export class RefusalLog {
  readonly #lines: LogThrottle;

  constructor(private readonly log: Logger) {
    this.#lines = new LogThrottle((leftOut) => log.info({ leftOut }, 'more callers rejected in the same second'));
  }

  /** Logs neither the query nor any header, because both may contain secrets. */
  note({ method, path, incoming }: Request): void {
    if (!this.#lines.take('')) return;
    const reason = incoming.headers.authorization === undefined ? 'no-token' : 'unknown-token';
    const address = incoming.socket.remoteAddress;
    this.log.info({ method, path: path.slice(0, MAX_PATH_LENGTH), reason, address }, 'caller rejected');
  }

  close(): void {
    this.#lines.close();
  }
}
