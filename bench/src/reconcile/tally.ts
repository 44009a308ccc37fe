/** Counts what a contestant handled, and says so when it is all that it was told of. Used in its process, over IPC. */
export interface Task {
  count: number;
  /** Whether the status is to be written, or the events are only counted. */
  writes: boolean;
}

export class Tally {
  #left = 0;

  constructor() {
    process.on('message', ({ count }: Task) => {
      // An event may be here before the word that it will be.
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
