/**
 * Turns of the main thread, and its present project and operation, in memory that it shares with the watchdog thread.
 * The main thread writes it, in some ten nanoseconds; the watchdog thread reads it only once a hang is certain, so that
 * it does not change in the meantime.
 */

/** Maximum bytes of a stored text; a longer text is truncated. */
const TEXT_BYTES = 63;
const PROJECT_AT = 4;
const OPERATION_AT = PROJECT_AT + 1 + TEXT_BYTES;
const SHARED_BYTES = OPERATION_AT + 1 + TEXT_BYTES;
const UNPRINTABLE = 0x3f;

export class UnderWay {
  readonly memory: SharedArrayBuffer;
  readonly #turns: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(memory = new SharedArrayBuffer(SHARED_BYTES)) {
    this.memory = memory;
    this.#turns = new Int32Array(memory, 0, 1);
    this.#bytes = new Uint8Array(memory);
  }

  get turns(): number {
    return Atomics.load(this.#turns, 0);
  }

  get project(): string {
    return this.#read(PROJECT_AT);
  }

  get operation(): string {
    return this.#read(OPERATION_AT);
  }

  begin(project: string, operation: string): void {
    this.#write(PROJECT_AT, project);
    this.#write(OPERATION_AT, operation);
  }

  endTurn(): void {
    Atomics.add(this.#turns, 0, 1);
  }

  endNames(): void {
    this.#bytes[PROJECT_AT] = 0;
    this.#bytes[OPERATION_AT] = 0;
  }

  /** Length, then ASCII characters. */
  #write(at: number, text: string): void {
    const length = Math.min(text.length, TEXT_BYTES);
    this.#bytes[at] = length;
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      this.#bytes[at + 1 + index] = code > 0x1f && code < 0x7f ? code : UNPRINTABLE;
    }
  }

  #read(at: number): string {
    return String.fromCharCode(...this.#bytes.subarray(at + 1, at + 1 + (this.#bytes[at] as number)));
  }
}
