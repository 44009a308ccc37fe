/**
 * Whom this server did not know, for whoever looks for an attack. In: each request that is 401. Out: a line of the log
 * for each of the first few of a second, and then one that says how many more there were, so that a flood fills no
 * disk.
 */
import type { Logger } from 'pino';
import type { Request } from './request.js';

const LINES = 10;
const WINDOW_MS = 1_000;
/** Callers choose the path, and may make it long. */
const MAX_PATH_LENGTH = 200;

export class RefusalLog {
  #lines = 0;
  #leftOut = 0;
  #turn: NodeJS.Timeout | undefined;

  constructor(private readonly log: Logger) {}

  /** Neither the query nor any header is written: both may hold secrets. */
  note({ method, path, incoming }: Request): void {
    this.#turn ??= setTimeout(() => this.#begin(), WINDOW_MS).unref();
    if (this.#lines >= LINES) {
      this.#leftOut++;
      return;
    }
    this.#lines++;
    const reason = incoming.headers.authorization === undefined ? 'no-token' : 'unknown-token';
    const address = incoming.socket.remoteAddress;
    this.log.info({ method, path: path.slice(0, MAX_PATH_LENGTH), reason, address }, 'caller rejected');
  }

  close(): void {
    clearTimeout(this.#turn);
    this.#begin();
  }

  #begin(): void {
    this.#turn = undefined;
    this.#lines = 0;
    if (this.#leftOut > 0) this.log.info({ leftOut: this.#leftOut }, 'more callers rejected in the same second');
    this.#leftOut = 0;
  }
}
