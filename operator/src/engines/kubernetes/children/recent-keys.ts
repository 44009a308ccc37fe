/** Remembers a limited number of keys and evicts the oldest first. With `ms`, each entry expires after that time. */
export class RecentKeys<V> {
  readonly #entries = new Map<string, { value: V; at: number }>();
  readonly #most: number;
  readonly #ms: number;

  constructor(most: number, ms = Number.POSITIVE_INFINITY) {
    this.#most = most;
    this.#ms = ms;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    if (performance.now() - entry.at <= this.#ms) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, at: performance.now() });
    if (this.#entries.size > this.#most) this.#entries.delete(this.#entries.keys().next().value as string);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
