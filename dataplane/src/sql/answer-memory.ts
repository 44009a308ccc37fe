/**
 * Bounds what the database of a tenant can make this process hold. One answer has a bound of its own; answers that are being received
 * share a budget of their project and one of the process. In: the sessions' byte counts. Out: whether there is room.
 */

import type { Login } from '../tenant.js';

const MIB = 1024 * 1024;

export const ANSWER_LIMITS = {
  /** All messages of the answer to one batch, and so each of them. */
  answerBytes: 64 * MIB,
  /** One message that is no data: an error, a notice, a notification. */
  reportBytes: 256 * 1024,
  /** Answers that are being received, of one project, on the connections of all services. */
  projectBytes: 128 * MIB,
  /** The same of all projects in this process. */
  allBytes: 256 * MIB,
  /** All that comes before the first statement. */
  loginBytes: MIB,
};

/** What is below it is not counted against the shared budgets: hot paths take nothing. */
export const COUNTED_FROM = MIB;

let heldByAll = 0;
/** By database; none is here that holds nothing. */
const heldByDatabase = new Map<string, number>();

/** What one pool takes of the budgets of its database and of the process. */
export class AnswerMemory {
  readonly #database: string;

  constructor({ host, port, database }: Pick<Login, 'host' | 'port' | 'database'>) {
    this.#database = `${host}:${port}/${database}`;
  }

  /** False where it does not fit; then nothing was taken. */
  take(bytes: number): boolean {
    const held = heldByDatabase.get(this.#database) ?? 0;
    if (held + bytes > ANSWER_LIMITS.projectBytes || heldByAll + bytes > ANSWER_LIMITS.allBytes) return false;
    this.#hold(held + bytes);
    heldByAll += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#hold((heldByDatabase.get(this.#database) ?? 0) - bytes);
    heldByAll -= bytes;
  }

  #hold(bytes: number): void {
    if (bytes > 0) heldByDatabase.set(this.#database, bytes);
    else heldByDatabase.delete(this.#database);
  }
}
