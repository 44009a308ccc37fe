/** What a function wrote, the newest lines of it: a ring with a bound on lines, and on the length of each. */
export interface LogLine {
  /** Grows by one a line; lines that fell out of the ring are missing. */
  sequence: number;
  time: string;
  level: 'info' | 'error' | 'system';
  version: number;
  message: string;
}

export class FunctionLog {
  readonly #lines: LogLine[] = [];
  #sequence = 0;

  constructor(
    private readonly limits: { logLines: number; logLineBytes: number },
    private readonly now: () => Date = () => new Date(),
  ) {}

  add(level: LogLine['level'], version: number, message: string): void {
    const { logLines, logLineBytes } = this.limits;
    const text = message.length > logLineBytes ? `${message.slice(0, logLineBytes)}… (cut)` : message;
    this.#lines.push({ sequence: ++this.#sequence, time: this.now().toISOString(), level, version, message: text });
    // In batches: taking one off the front of an array for each line would copy it each time.
    if (this.#lines.length > logLines * 1.25) this.#lines.splice(0, this.#lines.length - logLines);
  }

  /** The newest `limit` lines after `sequence`, oldest first. */
  read(after = 0, limit = this.limits.logLines): LogLine[] {
    const kept = this.#lines.slice(-Math.min(limit, this.limits.logLines));
    return kept.filter(({ sequence }) => sequence > after);
  }
}

/** Cuts a stream of bytes into lines; a line that never ends is cut at `longest`. */
export class LineSplitter {
  #rest = '';
  readonly #decoder = new TextDecoder();

  constructor(
    private readonly longest: number,
    private readonly onLine: (line: string) => void,
  ) {}

  push(chunk: Buffer): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split('\n');
    this.#rest = lines.pop() as string;
    for (const line of lines) this.onLine(line);
    if (this.#rest.length > this.longest) this.end();
  }

  end(): void {
    if (this.#rest !== '') this.onLine(this.#rest);
    this.#rest = '';
  }
}
