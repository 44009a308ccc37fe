/**
 * Work of many projects, so much of it at once: projects take turns, so that one with much to do holds up no other.
 * What waits is bounded, of one and of all, but for the first of each project.
 */
export interface FairLimits {
  atOnce: number;
  /** Jobs of one project that run at once. */
  atOnceOfOne: number;
  waiting: number;
  waitingOfOne: number;
}

export class QueueFull extends Error {}

export class FairQueue {
  /** In the order of their turns. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #running = new Map<string, number>();
  #runningInAll = 0;
  #waitingInAll = 0;

  constructor(private readonly limits: FairLimits) {}

  get waiting(): number {
    return this.#waitingInAll;
  }

  /** Throws `QueueFull` where too much waits already. */
  async run<T>(ref: string, work: () => Promise<T>): Promise<T> {
    if (this.#waiting.has(ref) || !this.#hasRoom(ref)) await this.#turn(ref);
    else this.#enter(ref);
    try {
      return await work();
    } finally {
      this.#leave(ref);
      this.#next();
    }
  }

  /** Drops the jobs that wait. */
  drop(): void {
    this.#waiting.clear();
    this.#waitingInAll = 0;
  }

  #hasRoom(ref: string): boolean {
    return this.#runningInAll < this.limits.atOnce && (this.#running.get(ref) ?? 0) < this.limits.atOnceOfOne;
  }

  #turn(ref: string): Promise<void> {
    const own = this.#waiting.get(ref) ?? [];
    // Who has nothing waiting may always wait: else a few projects that fill the queue would keep out all others.
    const isFull = own.length >= this.limits.waitingOfOne || this.#waitingInAll >= this.limits.waiting;
    if (own.length > 0 && isFull) throw new QueueFull();
    this.#waiting.set(ref, own);
    this.#waitingInAll++;
    return new Promise((resolve) => own.push(resolve));
  }

  #next(): void {
    for (const [ref, own] of this.#waiting) {
      if (!this.#hasRoom(ref)) continue;
      const begin = own.shift() as () => void;
      this.#waitingInAll--;
      // Whoever had a turn is the last to have the next.
      this.#waiting.delete(ref);
      if (own.length > 0) this.#waiting.set(ref, own);
      this.#enter(ref);
      begin();
      return;
    }
  }

  #enter(ref: string): void {
    this.#running.set(ref, (this.#running.get(ref) ?? 0) + 1);
    this.#runningInAll++;
  }

  #leave(ref: string): void {
    const left = (this.#running.get(ref) ?? 1) - 1;
    if (left > 0) this.#running.set(ref, left);
    else this.#running.delete(ref);
    this.#runningInAll--;
  }
}
