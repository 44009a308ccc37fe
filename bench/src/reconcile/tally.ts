/**
 * Counts the objects that a contestant handled, and reports when it has handled all. Runs in the contestant's process.
 */
export interface Task {
  count: number;
  /** True if the status is to be written; false if events are only counted. */
  writes: boolean;
}

export class Tally {
  #left = 0;

  constructor() {
    process.on('message', ({ count }: Task) => {
      // An event may arrive before the message that announces it.
      this.#left += count;
    });
    process.on('disconnect', () => process.exit());
    process.send?.('ready');
  }

  handled(): void {
    this.#left -= 1;
    if (this.#left === 0) process.send?.('done');
  }
}
