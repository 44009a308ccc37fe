/**
 * The newest lines of one service of one project, in memory and in a file. In: lines of JSON. Out: those that are not
 * too old. A killed process loses the lines of the last second.
 */
import { appendFile, mkdir, open, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Bytes of a journal that are kept. Its file grows to twice as many before it is shortened. */
const MOST_BYTES = 128 * 1024;

export class Journal {
  #lines: string[] = [];
  /** The number of lines at the end that the file does not have yet. */
  #unwritten = 0;
  bytes = 0;
  #fileBytes = 0;
  #loaded: Promise<void> | undefined;

  /** `file`: undefined: in memory alone. */
  constructor(private readonly file: string | undefined) {}

  get isWritten(): boolean {
    return this.#unwritten === 0;
  }

  /** `line`: one line, without its end. */
  add(line: string): void {
    this.#lines.push(line);
    this.bytes += line.length;
    if (this.file !== undefined) this.#unwritten += 1;
    if (this.bytes > MOST_BYTES) this.#shorten();
  }

  /** Returns the lines, oldest first, also those of an earlier process. */
  async read(): Promise<readonly string[]> {
    await this.#load();
    return this.#lines;
  }

  /** Appends new lines to the file. Not more than one call at a time. */
  async flush(): Promise<void> {
    if (this.file === undefined || this.isWritten) return;
    await this.#load();
    const lines = this.#unwritten > 0 ? this.#lines.slice(-this.#unwritten) : [];
    this.#unwritten = 0;
    const text = lines.map((line) => `${line}\n`).join('');
    await mkdir(path.dirname(this.file), { recursive: true, mode: 0o700 });
    if (this.#fileBytes + text.length > 2 * MOST_BYTES) await this.#rewrite(this.file);
    else {
      await appendFile(this.file, text, { mode: 0o600 });
      this.#fileBytes += text.length;
    }
  }

  /** Evicts a quarter at once, because each removal from the front copies the array. */
  #shorten(): void {
    let count = 0;
    for (; this.bytes > 0.75 * MOST_BYTES && count < this.#lines.length - 1; count += 1) {
      this.bytes -= (this.#lines[count] as string).length;
    }
    this.#lines.splice(0, count);
    this.#unwritten = Math.min(this.#unwritten, this.#lines.length);
  }

  #load(): Promise<void> {
    this.#loaded ??= this.file === undefined ? Promise.resolve() : this.#readFile(this.file);
    this.#loaded.catch(() => {
      this.#loaded = undefined;
    });
    return this.#loaded;
  }

  async #readFile(file: string): Promise<void> {
    const { text, size } = await endOf(file);
    // A line that was being written when a process died has no end: the next one would continue it.
    this.#fileBytes = text === '' || text.endsWith('\n') ? size : Number.POSITIVE_INFINITY;
    const earlier = text.split('\n').slice(0, -1);
    this.#lines = [...earlier, ...this.#lines];
    for (const line of earlier) this.bytes += line.length;
    if (this.bytes > MOST_BYTES) this.#shorten();
  }

  async #rewrite(file: string): Promise<void> {
    const text = this.#lines.map((line) => `${line}\n`).join('');
    await writeFile(`${file}.new`, text, { mode: 0o600 });
    await rename(`${file}.new`, file);
    this.#fileBytes = text.length;
  }
}

/** Returns the whole lines at the end of the file. Empty: there is none. */
async function endOf(file: string): Promise<{ text: string; size: number }> {
  const handle = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (!handle) return { text: '', size: 0 };
  try {
    const { size } = await handle.stat();
    const from = Math.max(0, size - MOST_BYTES);
    const buffer = Buffer.alloc(size - from);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, from);
    const text = buffer.toString('utf8', 0, bytesRead);
    // The first line may be cut.
    return { text: from === 0 ? text : text.slice(text.indexOf('\n') + 1), size };
  } finally {
    await handle.close();
  }
}
