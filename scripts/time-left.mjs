/** Formats the progress of long work for people. Used by the scripts and the test runner. */

export const minutes = (seconds) =>
  `${Math.floor(Math.round(seconds) / 60)}:${String(Math.round(seconds) % 60).padStart(2, '0')}`;

/**
 * Estimates the rest of work on `total` items. Counts the time from the first 5 % of them on, because npm downloads its
 * lists for a while before that. Until then it expects the work to take `usualSeconds`.
 */
export class TimeLeft {
  #total;
  #usualSeconds;
  #begin;
  #first;

  /** Times are in milliseconds. `done` is the number of items that were finished before. */
  constructor({ total, done, usualSeconds, now }) {
    this.#total = total;
    this.#usualSeconds = usualSeconds;
    this.#begin = { done, now };
  }

  /** Returns `34 of 225, about 4:10 left`. */
  at(done, now) {
    if (done >= this.#begin.done + this.#total / 20) this.#first ??= { done, now };
    return `${done} of ${this.#total}, about ${minutes(this.#secondsLeft(done, now))} left`;
  }

  #secondsLeft(done, now) {
    if (this.#first && done > this.#first.done) {
      return ((now - this.#first.now) / 1000 / (done - this.#first.done)) * (this.#total - done);
    }
    return Math.max(1, this.#usualSeconds - (now - this.#begin.now) / 1000);
  }
}
