import { retryLater } from '../http/problem.js';

/** How much of one kind is under way at once, of a project and of all. */
export class ConcurrencyLimit {
  private readonly running = new Map<string, number>();
  private total = 0;

  constructor(
    private readonly what: string,
    private readonly ofProject: number,
    private readonly ofAll: number,
  ) {}

  async run<T>(ref: string, work: () => Promise<T>): Promise<T> {
    this.enter(ref);
    try {
      return await work();
    } finally {
      this.leave(ref);
    }
  }

  private enter(ref: string): void {
    const running = this.running.get(ref) ?? 0;
    if (running >= this.ofProject) {
      throw retryLater('too_many_requests', `A project has at most ${this.ofProject} ${this.what} at once.`, 1);
    }
    if (this.total >= this.ofAll) throw retryLater('unavailable', `Too many ${this.what} run now. Try again.`, 1);
    this.running.set(ref, running + 1);
    this.total += 1;
  }

  private leave(ref: string): void {
    const running = (this.running.get(ref) ?? 1) - 1;
    if (running > 0) this.running.set(ref, running);
    else this.running.delete(ref);
    this.total -= 1;
  }
}
