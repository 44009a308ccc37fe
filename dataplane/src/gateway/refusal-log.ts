/**
 * Whom the gateway turned away for their key or token, and whom a service did, for whoever looks for an attack. In: each refusal. Out: a
 * line of the log for each of a project's first few of a second, and then one that says how many more there were: a flood fills no disk,
 * and hides nothing of other projects.
 */
import type { Logger } from 'pino';
import type { ServiceAddress } from './address.js';
import type { Decision } from './credentials.js';

/** Of one project, and of all. */
const LINES = 10;
const ALL_LINES = 100;
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
  /** Of the projects that have lines: no more than there are lines. */
  readonly #projects = new Map<string, { lines: number; leftOut: number }>();
  #lines = 0;
  /** Of projects that have none. */
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
    if (!this.#count(ref)) return;
    const path = place.path.slice(0, MAX_PATH_LENGTH);
    const { service } = place;
    this.log.info({ ref, service, method, path, ...why, requestId, address }, 'a caller was refused');
  }

  close(): void {
    clearTimeout(this.#turn);
    this.#begin();
  }

  /** Whether it may have a line. */
  #count(ref: string): boolean {
    const project = this.#projects.get(ref);
    const isLine = this.#lines < ALL_LINES && (project?.lines ?? 0) < LINES;
    if (isLine) {
      this.#lines++;
      if (project) project.lines++;
      else this.#projects.set(ref, { lines: 1, leftOut: 0 });
    } else if (project) project.leftOut++;
    else this.#leftOut++;
    return isLine;
  }

  #begin(): void {
    this.#turn = undefined;
    for (const [ref, { leftOut }] of this.#projects) {
      if (leftOut > 0) this.log.info({ ref, leftOut }, 'more callers of the project were refused in the same second');
    }
    if (this.#leftOut > 0) this.log.info({ leftOut: this.#leftOut }, 'more callers were refused in the same second');
    this.#projects.clear();
    this.#lines = 0;
    this.#leftOut = 0;
  }
}
