/**
 * Limits log lines whose number callers decide. Each key, such as a project, may log its first few lines of a second.
 * At the end of the second, the number of dropped lines is logged. Thus a flood neither fills the disk nor hides lines
 * of other keys.
 */

/** Maximum number of lines per second of one key, and of all keys together. */
const LINES = 10;
const ALL_LINES = 100;
const WINDOW_MS = 1_000;

export class LogThrottle {
  /** Keys with lines in this second: at most as many as lines. */
  readonly #keys = new Map<string, { lines: number; dropped: number }>();
  #lines = 0;
  /** Dropped lines in this second of keys without an entry. */
  #dropped = 0;
  #window: NodeJS.Timeout | undefined;

  /**
   * `report` logs the number of dropped lines of a key; without a key, of all keys that had no line. `all`: the lines
   * of all keys in a second; infinite where lines of one key must not displace those of another. `each`: the lines of
   * one key.
   */
  constructor(
    private readonly report: (dropped: number, key?: string) => void,
    private readonly all = ALL_LINES,
    private readonly each = LINES,
  ) {}

  /** True if the key may log one more line. */
  take(key: string): boolean {
    this.#window ??= setTimeout(() => this.#end(), WINDOW_MS).unref();
    const known = this.#keys.get(key);
    const hasRoom = this.#lines < this.all && (known?.lines ?? 0) < this.each;
    if (hasRoom) {
      this.#lines++;
      if (known) known.lines++;
      else this.#keys.set(key, { lines: 1, dropped: 0 });
    } else if (known) known.dropped++;
    else this.#dropped++;
    return hasRoom;
  }

  /** Reports lines dropped since the last report. */
  close(): void {
    clearTimeout(this.#window);
    this.#end();
  }

  #end(): void {
    this.#window = undefined;
    for (const [key, { dropped }] of this.#keys) if (dropped > 0) this.report(dropped, key);
    if (this.#dropped > 0) this.report(this.#dropped);
    this.#keys.clear();
    this.#lines = 0;
    this.#dropped = 0;
  }
}
