/** So many at once, then so many a minute, by key; of the keys the longest unused are forgotten, so memory is bounded. */
export class RateLimit {
  /** By key, when all that was taken will have been given back, in milliseconds. */
  private readonly fullAgain = new Map<string, number>();
  private readonly interval: number;

  constructor(
    private readonly burst: number,
    perMinute: number,
    private readonly keys = 10_000,
  ) {
    this.interval = 60_000 / perMinute;
  }

  /** Seconds to wait; 0: taken. */
  take(key: string, now = Date.now()): number {
    const full = Math.max(this.fullAgain.get(key) ?? now, now);
    const wait = full + this.interval - now - this.burst * this.interval;
    if (wait > 0) return wait / 1000;
    this.keep(key, full + this.interval);
    return 0;
  }

  /** What was taken turned out not to count. */
  giveBack(key: string): void {
    const full = this.fullAgain.get(key);
    if (full !== undefined) this.keep(key, full - this.interval);
  }

  private keep(key: string, full: number): void {
    this.fullAgain.delete(key);
    this.fullAgain.set(key, full);
    const [longestUnused] = this.fullAgain.keys();
    if (this.fullAgain.size > this.keys && longestUnused !== undefined) this.fullAgain.delete(longestUnused);
  }
}
