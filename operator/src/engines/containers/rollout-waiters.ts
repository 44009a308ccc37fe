/** Those who wait for the end of a rollout. In: Builds, and their ends. Out: promises. */
export class RolloutWaiters {
  #waiters: { build: string; end: (error?: Error) => void }[] = [];

  /** Resolves once the Build serves. Rejects with the error that ends its rollout. */
  wait(build: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.push({ build, end: (error) => (error ? reject(error) : resolve()) });
    });
  }

  /** Ends the rollout of a Build, for all who wait for it. */
  end(build: string, error?: Error): void {
    const ended = this.#waiters.filter((waiter) => waiter.build === build);
    this.#waiters = this.#waiters.filter((waiter) => waiter.build !== build);
    for (const { end } of ended) end(error);
  }

  endAll(error: Error): void {
    for (const { end } of this.#waiters.splice(0)) end(error);
  }
}
