/**
 * Records acknowledged writes, which must exist afterwards, and unacknowledged ones, which may exist. In: attempts and
 * acknowledgements. Attempts with the same name must not overlap. Each part of the load uses it.
 */
export class Kept {
  readonly #entries = new Map<string, { acknowledged: boolean; possible: Set<string> }>();

  /** Runs `work`. Its success acknowledges `value` for `name`. */
  async attempt<T>(name: string, value: string, work: () => Promise<T>): Promise<T> {
    const entry = this.#entries.get(name) ?? { acknowledged: false, possible: new Set() };
    this.#entries.set(name, entry);
    entry.possible.add(value);
    const answer = await work();
    this.#entries.set(name, { acknowledged: true, possible: new Set([value]) });
    return answer;
  }

  /** Returns the names with an acknowledged value. */
  get names(): string[] {
    return [...this.#entries].filter(([, { acknowledged }]) => acknowledged).map(([name]) => name);
  }

  /** Returns the problem with the value `found` under `name`, if any. */
  problem(name: string, found: string | undefined): string | undefined {
    const entry = this.#entries.get(name);
    if (found === undefined) return entry?.acknowledged ? `${name} was acknowledged and is lost` : undefined;
    return entry?.possible.has(found) ? undefined : `${name} is not as it was last written`;
  }
}
