/**
 * Bounds what the database of a tenant can make this process hold. One answer has a bound of its own; answers that are being received
 * share a budget of their project and one of the process. In: the sessions' byte counts. Out: whether there is room.
 */

const MIB = 1024 * 1024;

export const ANSWER_LIMITS = {
  /** All messages of the answer to one batch, and so each of them. */
  answerBytes: 64 * MIB,
  /** One message that is no data: an error, a notice, a notification. */
  reportBytes: 256 * 1024,
  /** Answers that are being received, of one project, on all connections of one service. */
  projectBytes: 128 * MIB,
  /** The same of all projects in this process. */
  allBytes: 256 * MIB,
  /** All that comes before the first statement. */
  loginBytes: MIB,
};

/** What is below it is not counted against the shared budgets: hot paths take nothing. */
export const COUNTED_FROM = MIB;

let heldByAll = 0;

/** What one pool holds of the budgets. */
export class AnswerMemory {
  #held = 0;

  /** False where it does not fit; then nothing was taken. */
  take(bytes: number): boolean {
    if (this.#held + bytes > ANSWER_LIMITS.projectBytes || heldByAll + bytes > ANSWER_LIMITS.allBytes) return false;
    this.#held += bytes;
    heldByAll += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#held -= bytes;
    heldByAll -= bytes;
  }
}
