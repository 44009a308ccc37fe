import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs';
import { Writable } from 'node:stream';

const LARGEST_BYTES = 8 * 2 ** 20;
/** Number of older files that are kept. `<file>.1` is the newest of them. */
const KEPT_FILES = 2;
const TAIL_LENGTH = 4000;

/** A log file that never exceeds its size limit. On a full disk, lines are lost, but the program continues. */
export class LogFile extends Writable {
  #descriptor: number;
  #size: number;
  readonly #file: string;
  readonly #largest: number;
  #tail = '';

  constructor(file: string, largest = LARGEST_BYTES) {
    super({ decodeStrings: true });
    this.#file = file;
    this.#largest = largest;
    this.#descriptor = openSync(file, 'a', 0o600);
    this.#size = fstatSync(this.#descriptor).size;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#tail = (this.#tail + chunk.toString('utf8')).slice(-TAIL_LENGTH);
    try {
      if (this.#size + chunk.length > this.#largest) this.#rotate();
      writeSync(this.#descriptor, chunk);
      this.#size += chunk.length;
    } catch {
      // The disk is full or the folder is missing: the program matters more than its log.
    }
    done();
  }

  /** Returns the probable reason for the program's end: the message of an uncaught error, or the last line. */
  lastWords(): string {
    const lines = this.#tail.trimEnd().split('\n');
    const line = lines.findLast((each) => /^\w*Error: |"level":[56]0/.test(each)) ?? lines.at(-1) ?? '';
    return (/^\{.*"msg":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? line).slice(0, 500);
  }

  override _final(done: () => void): void {
    closeSync(this.#descriptor);
    done();
  }

  #rotate(): void {
    for (let age = KEPT_FILES - 1; age >= 0; age--) {
      try {
        renameSync(age === 0 ? this.#file : `${this.#file}.${age}`, `${this.#file}.${age + 1}`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
    // The new file is opened first: once the old descriptor is closed, its number may belong to another file.
    const next = openSync(this.#file, 'a', 0o600);
    closeSync(this.#descriptor);
    this.#descriptor = next;
    this.#size = 0;
  }
}
