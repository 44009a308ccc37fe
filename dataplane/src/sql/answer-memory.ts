/**
 * Bounds what the database of a tenant can make this process hold. One answer has a bound of its own; answers that are
 * being received, or wait for a client that reads them slowly, share budgets of their project, of its account and of
 * the process. In: byte counts. Out: whether there is room.
 */

import type { Login } from '../tenant.js';

const MIB = 1024 * 1024;

export const ANSWER_LIMITS = {
  /** All messages of the answer to one batch, and so each of them. */
  answerBytes: 64 * MIB,
  /** One message that is no data: an error, a notice, a notification. */
  reportBytes: 256 * 1024,
  /** Answers that are being received or sent, of one project, on the connections of all services. */
  projectBytes: 128 * MIB,
  /** The same of all projects of one account. */
  accountBytes: 192 * MIB,
  /** The same of all projects in this process. */
  allBytes: 256 * MIB,
  /** All that comes before the first statement. */
  loginBytes: MIB,
};

/** Bytes below which an answer is not counted against the shared budgets: hot paths reserve nothing. */
export const COUNTED_FROM = MIB;

interface Share {
  held: Map<string, number>;
  of: string;
  most: number;
}

/** None has an entry that holds nothing. */
const [byDatabase, byAccount, byProcess] = [
  new Map<string, number>(),
  new Map<string, number>(),
  new Map<string, number>(),
];

/** The bytes that one answer reserves of the budgets. Its creator calls `end`. */
export class HeldAnswer {
  readonly #shares: readonly Share[];
  #bytes = 0;

  constructor({ host, port, database, account }: Pick<Login, 'host' | 'port' | 'database' | 'account'>) {
    const name = `${host}:${port}/${database}`;
    const { projectBytes, accountBytes, allBytes } = ANSWER_LIMITS;
    this.#shares = [
      { held: byDatabase, of: name, most: projectBytes },
      // A project that nobody owns counts by itself.
      { held: byAccount, of: account ?? name, most: accountBytes },
      { held: byProcess, of: '', most: allBytes },
    ];
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False where it does not fit; then nothing was taken. */
  grow(bytes: number): boolean {
    if (this.#shares.some(({ held, of, most }) => (held.get(of) ?? 0) + bytes > most)) return false;
    this.#add(bytes);
    return true;
  }

  /**
   * Counts an answer that was received within the budgets and waits to be sent. It is never refused, but leaves less
   * room for others.
   */
  keep(bytes: number): void {
    this.#add(bytes);
  }

  /** May be called again. */
  end(): void {
    this.#add(-this.#bytes);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    for (const { held, of } of this.#shares) {
      const sum = (held.get(of) ?? 0) + bytes;
      if (sum > 0) held.set(of, sum);
      else held.delete(of);
    }
  }
}
