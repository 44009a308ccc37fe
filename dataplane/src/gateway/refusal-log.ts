/**
 * Whom the gateway turned away for their key or token, and whom a service did, for whoever looks for an attack. In: each refusal. Out: a line of the log for
 * each of the first few of a second, and then one that says how many more there were, so that a flood fills no disk.
 */
import type { Logger } from 'pino';
import type { ServiceAddress } from './address.js';
import type { Decision } from './credentials.js';

const LINES = 10;
const WINDOW_MS = 1_000;
/** Callers choose the path, and may make it long. */
const MAX_PATH_LENGTH = 200;

export type Refused = Exclude<Decision, { caller: unknown }>;

export interface Attempt {
  ref: string;
  place: ServiceAddress;
  requestId: string;
  method: string;
  /** Of the caller. */
  address: string;
}

export class RefusalLog {
  #lines = 0;
  #leftOut = 0;
  #turn: NodeJS.Timeout | undefined;

  constructor(private readonly log: Logger) {}

  /** Neither the query nor any header nor what a token says is written: all may hold secrets. */
  note(decision: Refused, attempt: Attempt): void {
    const problem = decision.refused === 'invalid-token' ? decision.problem.kind : undefined;
    this.#write({ reason: decision.refused, problem }, attempt);
  }

  /** What a service answered itself: the role may not do this, the user's password is another. */
  noteAnswer(status: number, attempt: Attempt): void {
    if (status === 401 || status === 403) this.#write({ reason: 'by-the-service', status }, attempt);
  }

  #write(why: object, { ref, place, requestId, method, address }: Attempt): void {
    this.#turn ??= setTimeout(() => this.#begin(), WINDOW_MS).unref();
    if (this.#lines >= LINES) {
      this.#leftOut++;
      return;
    }
    this.#lines++;
    const path = place.path.slice(0, MAX_PATH_LENGTH);
    const { service } = place;
    this.log.info({ ref, service, method, path, ...why, requestId, address }, 'a caller was refused');
  }

  close(): void {
    clearTimeout(this.#turn);
    this.#begin();
  }

  #begin(): void {
    this.#turn = undefined;
    this.#lines = 0;
    if (this.#leftOut > 0) this.log.info({ leftOut: this.#leftOut }, 'more callers were refused in the same second');
    this.#leftOut = 0;
  }
}
