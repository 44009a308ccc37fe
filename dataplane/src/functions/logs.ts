/** The log of a function: a ring buffer of its newest lines, bounded in lines, in the length of each, and in bytes. */
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
  #bytes = 0;

  constructor(
    private readonly limits: { logLines: number; logLineBytes: number; logBytes: number },
    private readonly now: () => Date = () => new Date(),
  ) {}

  add(level: LogLine['level'], version: number, message: string): void {
    const { logLines, logLineBytes, logBytes } = this.limits;
    const cut = message.length > logLineBytes ? `${message.slice(0, logLineBytes)}… (cut)` : message;
    // A copy: a part of a string keeps the whole chunk that it was cut from in memory.
    const text = Buffer.from(cut).toString();
    this.#lines.push({ sequence: ++this.#sequence, time: this.now().toISOString(), level, version, message: text });
    this.#bytes += bytesOf(text);
    // In batches: taking one off the front of an array for each line would copy it each time.
    if (this.#lines.length > logLines * 1.25) this.#drop(this.#lines.length - logLines);
    if (this.#bytes <= logBytes) return;
    let count = 0;
    for (let bytes = this.#bytes; bytes > logBytes * 0.75; count++) bytes -= bytesOf(this.#lines[count]?.message ?? '');
    this.#drop(Math.min(count, this.#lines.length - 1));
  }

  #drop(count: number): void {
    for (const { message } of this.#lines.splice(0, count)) this.#bytes -= bytesOf(message);
  }

  /** The newest `limit` lines after `sequence`, oldest first. */
  read(after = 0, limit = this.limits.logLines): LogLine[] {
    const kept = this.#lines.slice(-Math.min(limit, this.limits.logLines));
    return kept.filter(({ sequence }) => sequence > after);
  }
}

/** Bytes of a line's object beside its text. */
const LINE_BYTES = 128;
/** Two bytes a character, as V8 keeps text that is not Latin-1. */
const bytesOf = (text: string) => LINE_BYTES + 2 * text.length;

const NEWLINE = 10;

/**
 * Cuts a stream of bytes into lines. A line that never ends is cut at `longest`; of one chunk only the last `most`
 * lines are passed on, and the first line that begins with `mark`.
 */
export class LineSplitter {
  #rest = '';
  readonly #decoder = new TextDecoder();

  constructor(
    private readonly limits: { longest: number; most: number; mark?: string },
    private readonly onLine: (line: string) => void,
    private readonly onDropped: (count: number) => void,
  ) {}

  /** Returns how many lines the chunk ends. */
  push(chunk: Buffer): number {
    const { longest, most, mark } = this.limits;
    let count = 0;
    for (const byte of chunk) if (byte === NEWLINE) count += 1;
    let text = this.#rest + this.#decoder.decode(chunk, { stream: true });
    if (count > most) {
      this.onDropped(count - most);
      const kept = afterLine(text, most);
      const marked = mark === undefined ? undefined : lineWith(mark, text.slice(0, text.length - kept.length));
      if (marked !== undefined) this.onLine(marked);
      text = kept;
    }
    const lines = text.split('\n');
    this.#rest = lines.pop() as string;
    for (const line of lines) this.onLine(line);
    if (this.#rest.length > longest) this.end();
    return count;
  }

  end(): void {
    if (this.#rest !== '') this.onLine(this.#rest);
    this.#rest = '';
  }
}

/** The last `most` lines, and what has no end yet. */
function afterLine(text: string, most: number): string {
  let at = text.length;
  for (let passed = 0; passed <= most; passed++) at = text.lastIndexOf('\n', at - 1);
  return text.slice(at + 1);
}

function lineWith(mark: string, text: string): string | undefined {
  const at = text.startsWith(mark) ? 0 : text.indexOf(`\n${mark}`) + 1;
  return at > 0 || text.startsWith(mark) ? text.slice(at, text.indexOf('\n', at)) : undefined;
}

/** To take a chunk of one byte is as much work as to take one of these. */
const CHUNK_COSTS_BYTES = 1_024;
/** So is to keep a line, however short. */
const LINE_COSTS_BYTES = 256;
const BURST_MS = 1_000;

/** Charges output for the work that it makes: its bytes, its chunks and its lines. */
export class OutputMeter {
  /** When all that was read is paid for. */
  #paidAt = 0;

  constructor(private readonly bytesPerSecond: number) {}

  /** Returns for how many milliseconds nothing more may be read. */
  charge(bytes: number, lines: number, now: number): number {
    const cost = Math.max(bytes, CHUNK_COSTS_BYTES) + lines * LINE_COSTS_BYTES;
    this.#paidAt = Math.max(this.#paidAt, now - BURST_MS) + (cost / this.bytesPerSecond) * 1_000;
    return Math.max(0, this.#paidAt - now);
  }
}
