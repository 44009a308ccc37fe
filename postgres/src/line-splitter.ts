/** Maximum bytes of a line that are kept. The server escapes a byte of a message as up to six. */
const MOST_BYTES = 2 ** 20;

/** Receives a line without its end. `bytes`: its size, which is larger than the line if the line was cut. */
export type OnLine = (line: Buffer, bytes: number) => void;

/** Splits chunks of a stream into lines, and keeps a bounded part of each. */
export class LineSplitter {
  readonly #onLine: OnLine;
  #parts: Buffer[] = [];
  #kept = 0;
  #bytes = 0;

  constructor(onLine: OnLine) {
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#add(chunk.subarray(from, end));
      this.#end();
      from = end + 1;
    }
    this.#add(chunk.subarray(from));
  }

  /** Ends the last line, if the stream ended within it. */
  end(): void {
    if (this.#bytes > 0) this.#end();
  }

  #add(part: Buffer): void {
    this.#bytes += part.length;
    const kept = part.subarray(0, MOST_BYTES - this.#kept);
    if (kept.length === 0) return;
    this.#kept += kept.length;
    this.#parts.push(kept);
  }

  #end(): void {
    const line = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    const bytes = this.#bytes;
    this.#parts = [];
    this.#kept = 0;
    this.#bytes = 0;
    this.#onLine(line, bytes);
  }
}

const NEWLINE = 10;
