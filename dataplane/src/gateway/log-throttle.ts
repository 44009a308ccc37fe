/**
 * Which lines of a log are written where callers decide how many there could be: each project's first few of a second.
 * How many more there were is told once it is over: a flood fills no disk, and hides nothing of other projects.
 */

/** Lines per second of one project, and of all projects. */
const LINES = 10;
const ALL_LINES = 100;
const WINDOW_MS = 1_000;

export class LogThrottle {
  /** Projects with lines in this second: never more than there are lines. */
  readonly #projects = new Map<string, { lines: number; leftOut: number }>();
  #lines = 0;
  /** Lines dropped this second of projects without an entry. */
  #leftOut = 0;
  #turn: NodeJS.Timeout | undefined;

  /** `tell`: of how many no line was written; without a project those of all that had none. */
  constructor(private readonly tell: (leftOut: number, ref?: string) => void) {}

  /** Whether there may be one more. */
  take(ref: string): boolean {
    this.#turn ??= setTimeout(() => this.#begin(), WINDOW_MS).unref();
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

  close(): void {
    clearTimeout(this.#turn);
    this.#begin();
  }

  #begin(): void {
    this.#turn = undefined;
    for (const [ref, { leftOut }] of this.#projects) if (leftOut > 0) this.tell(leftOut, ref);
    if (this.#leftOut > 0) this.tell(this.#leftOut);
    this.#projects.clear();
    this.#lines = 0;
    this.#leftOut = 0;
  }
}
