/** Log of a function: a ring buffer of its newest lines, bounded in number, length and bytes. */
import { TokenBucket } from '@slipway/program';

export interface LogLine {
  /** Increases by one for each line; evicted lines leave gaps. */
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
    // Copied, because a substring keeps the whole chunk in memory.
    const text = Buffer.from(cut).toString();
    this.#lines.push({ sequence: ++this.#sequence, time: this.now().toISOString(), level, version, message: text });
    this.#bytes += bytesOf(text);
    // Evicts in batches, because removing each line from the front would copy the array each time.
    if (this.#lines.length > logLines * 1.25) this.#drop(this.#lines.length - logLines);
    if (this.#bytes <= logBytes) return;
    let count = 0;
    for (let bytes = this.#bytes; bytes > logBytes * 0.75; count++) bytes -= bytesOf(this.#lines[count]?.message ?? '');
    this.#drop(Math.min(count, this.#lines.length - 1));
  }

  #drop(count: number): void {
    for (const { message } of this.#lines.splice(0, count)) this.#bytes -= bytesOf(message);
  }

  /** Returns the newest `limit` lines after `sequence`, oldest first. */
  read(after = 0, limit = this.limits.logLines): LogLine[] {
    const newest = this.#lines.slice(-Math.min(limit, this.limits.logLines));
    return newest.filter(({ sequence }) => sequence > after);
  }
}

/** Line of one of several functions. */
export interface ProjectLogLine extends LogLine {
  function: string;
}

/** Maximum bytes of lines of several functions, in JSON. */
const MOST_OF_ALL = 1024 * 1024;

/** Returns the newest lines of all these logs, oldest first, as far as they fit into a response. */
export function newestOf(logs: Iterable<{ name: string; log: FunctionLog }>, limit: number): ProjectLogLine[] {
  const lines = [...logs].flatMap(({ name, log }) => log.read(0, limit).map((line) => ({ ...line, function: name })));
  lines.sort((a, b) => (a.time < b.time ? -1 : Number(a.time > b.time)));
  let bytes = 0;
  let first = lines.length;
  while (first > 0 && lines.length - first < limit) {
    bytes += Buffer.byteLength(JSON.stringify(lines[first - 1])) + 1;
    if (bytes > MOST_OF_ALL) break;
    first -= 1;
  }
  return lines.slice(first);
}

/** Bytes of a line's object in addition to its text. */
const LINE_BYTES = 128;
/** V8 stores text that is not Latin-1 in two bytes a character. */
const bytesOf = (text: string) => LINE_BYTES + 2 * text.length;

const NEWLINE = 10;

/**
 * Splits a stream of bytes into lines, and cuts a line at `longest`. Of a chunk it forwards only the last `most` lines,
 * and the first one that begins with `mark`.
 */
export class LineSplitter {
  #rest = '';
  readonly #decoder = new TextDecoder();

  constructor(
    private readonly limits: { longest: number; most: number; mark?: string },
    private readonly onLine: (line: string) => void,
    private readonly onDropped: (count: number) => void,
  ) {}

  /** Returns the number of lines that end in the chunk. */
  push(chunk: Buffer): number {
    const { longest, most, mark } = this.limits;
    let count = 0;
    for (const byte of chunk) if (byte === NEWLINE) count += 1;
    let text = this.#rest + this.#decoder.decode(chunk, { stream: true });
    if (count > most) {
      this.onDropped(count - most);
      const last = afterLine(text, most);
      const marked = mark === undefined ? undefined : lineWith(mark, text.slice(0, text.length - last.length));
      if (marked !== undefined) this.onLine(marked);
      text = last;
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

/** Returns the last `most` lines, and the unfinished rest. */
function afterLine(text: string, most: number): string {
  let at = text.length;
  for (let passed = 0; passed <= most; passed++) at = text.lastIndexOf('\n', at - 1);
  return text.slice(at + 1);
}

function lineWith(mark: string, text: string): string | undefined {
  const at = text.startsWith(mark) ? 0 : text.indexOf(`\n${mark}`) + 1;
  return at > 0 || text.startsWith(mark) ? text.slice(at, text.indexOf('\n', at)) : undefined;
}

/** Minimum charge for a chunk, in bytes. */
const CHUNK_COSTS_BYTES = 1_024;
/** Minimum charge for a line, in bytes. */
const LINE_COSTS_BYTES = 256;
const BURST_SECONDS = 1;

/** Charges output for its work: bytes, chunks and lines. */
export class OutputMeter {
  readonly #bucket: TokenBucket;

  constructor(bytesPerSecond: number, now?: () => number) {
    this.#bucket = new TokenBucket({ burst: bytesPerSecond * BURST_SECONDS, perSecond: bytesPerSecond }, now);
  }

  /** Returns the milliseconds in which nothing more may be read. */
  charge(bytes: number, lines: number): number {
    return this.#bucket.charge(Math.max(bytes, CHUNK_COSTS_BYTES) + lines * LINE_COSTS_BYTES) * 1_000;
  }
}
