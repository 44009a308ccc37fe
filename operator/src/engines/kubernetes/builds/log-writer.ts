/**
 * Writes the sections of a build's log to the store of sites, with few requests for much output. In: texts. Out: PUT
 * requests, each with its position. A request has 64 KiB, or the output of a quarter of a second.
 */
import type { ContentStoreClient } from '@slipway/sites';

export interface LogDestination {
  store: Pick<ContentStoreClient, 'putLog'>;
  ref: string;
  build: string;
  /** Maximum bytes of the log that are stored. */
  limit: number;
}

const SECTIONS = { Cloning: 1, Installing: 2, Building: 3 } as const;
export type Section = keyof typeof SECTIONS;

const GATHERED_BYTES = 64 * 1024;
const GATHERED_MS = 250;
/** Milliseconds until a failed request is repeated if no more output comes. */
const RETRY_MS = 2_000;

export class LogWriter {
  /** Number of bytes of each section that the store has. */
  #stored: Record<Section, number> = { Cloning: 0, Installing: 0, Building: 0 };
  #left: number;
  /** Output of one section that the store does not have yet. */
  #section: Section = 'Cloning';
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The last request: the next one waits for it. */
  #requests = Promise.resolve();

  constructor(private readonly destination: LogDestination) {
    this.#left = destination.limit;
  }

  /** True if the limit is reached: no more output is stored. */
  get isFull(): boolean {
    return this.#left <= 0;
  }

  async write(section: Section, text: string): Promise<void> {
    if (text === '' || this.isFull) return;
    if (section !== this.#section) await this.flush();
    this.#section = section;
    const bytes = Buffer.from(text);
    this.#gather(bytes.subarray(0, this.#left));
    if (bytes.length > this.#left) this.#gather(Buffer.from(this.#note()));
    this.#left -= bytes.length;
    if (this.#gatheredBytes >= GATHERED_BYTES) await this.flush();
    else this.#timer ??= setTimeout(() => this.#flushLate(), GATHERED_MS);
  }

  /** Resolves when the store has all output. */
  flush(): Promise<void> {
    this.#stopTimer();
    // If the timer's request fails, its bytes are in the next one.
    this.#requests = this.#requests.catch(() => undefined).then(() => this.#put());
    return this.#requests;
  }

  /** Runs `work`, which writes. If it fails, the next write begins at the same positions. */
  async undoingFailure(work: () => Promise<void>): Promise<void> {
    const [stored, left] = [{ ...this.#stored }, this.#left];
    try {
      await work();
      await this.flush();
    } catch (error) {
      await this.#requests.catch(() => undefined);
      this.#stopTimer();
      [this.#stored, this.#left] = [stored, left];
      [this.#gathered, this.#gatheredBytes] = [[], 0];
      throw error;
    }
  }

  #gather(bytes: Buffer): void {
    this.#gathered.push(bytes);
    this.#gatheredBytes += bytes.length;
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #flushLate(): void {
    this.flush().catch(() => {
      // The next output flushes too, and reports its failure.
      if (this.#gathered.length > 0) this.#timer ??= setTimeout(() => this.#flushLate(), RETRY_MS);
    });
  }

  async #put(): Promise<void> {
    const section = this.#section;
    const bytes = Buffer.concat(this.#gathered);
    if (bytes.length === 0) return;
    [this.#gathered, this.#gatheredBytes] = [[], 0];
    const { store, ref, build } = this.destination;
    const place = { number: SECTIONS[section], section };
    try {
      await store.putLog(ref, build, place, { at: this.#stored[section], bytes });
    } catch (error) {
      this.#gathered = [bytes, ...this.#gathered];
      this.#gatheredBytes += bytes.length;
      throw error;
    }
    this.#stored[section] += bytes.length;
  }

  #note(): string {
    return `\nThe log ends here: it reached its limit of ${this.destination.limit} bytes.\n`;
  }
}
