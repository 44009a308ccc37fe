/**
 * The log of one build. Redacts secrets, and drops everything above a limit. In: output of processes, and lines of the
 * platform. Out: text, with the step that it belongs to.
 */
import { StringDecoder } from 'node:string_decoder';
import { Redactor } from './redactor.js';
import type { Step } from './request.js';

export class BuildLog {
  readonly #redactor: Redactor;
  #decoder = new StringDecoder('utf8');
  #section: Step = 'Cloning';
  #isAtLineStart = true;
  #bytes = 0;
  #isFull = false;

  constructor(
    secrets: Iterable<string>,
    private readonly limitBytes: number,
    private readonly write: (section: string, text: string) => void,
  ) {
    this.#redactor = new Redactor(secrets);
  }

  /** Prepares the redaction of large secrets in short turns. */
  prepare(): Promise<void> {
    return this.#redactor.prepare();
  }

  begin(section: Step): void {
    this.flush();
    this.#section = section;
  }

  output(bytes: Buffer): void {
    if (!this.#isFull) this.#emit(this.#redactor.push(this.#decoder.write(bytes)));
  }

  /** Adds a line of the platform. */
  line(text: string): void {
    this.flush();
    this.#emit(this.#redactor.push(`${this.#isAtLineStart ? '' : '\n'}${text}\n`));
    this.flush();
  }

  /** Returns a text of the build as the log shows it. */
  shown(text: string): string {
    this.flush();
    return this.#redactor.push(text) + this.#redactor.end();
  }

  flush(): void {
    this.#emit(this.#redactor.push(this.#decoder.end()) + this.#redactor.end());
    this.#decoder = new StringDecoder('utf8');
  }

  #emit(text: string): void {
    if (text === '' || this.#isFull) return;
    const bytes = Buffer.from(text);
    const room = this.limitBytes - this.#bytes;
    this.#bytes += bytes.length;
    this.#isAtLineStart = text.endsWith('\n');
    if (bytes.length <= room) return this.write(this.#section, text);
    this.#isFull = true;
    const shown = new StringDecoder('utf8').write(bytes.subarray(0, room));
    this.write(this.#section, `${shown}\nThe log ends here: it reached its limit of ${this.limitBytes} bytes.\n`);
  }
}
