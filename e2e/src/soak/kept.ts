/**
 * Acknowledged writes by name, which must exist afterwards, and unanswered ones, which may. In: attempts and
 * acknowledgements, of one name one after another. Used by each part of the load.
 */
export class Kept {
  readonly #entries = new Map<string, { acknowledged: boolean; possible: Set<string> }>();

  /** Runs `work`, whose success acknowledges `value` under `name`. */
  async attempt<T>(name: string, value: string, work: () => Promise<T>): Promise<T> {
    const entry = this.#entries.get(name) ?? { acknowledged: false, possible: new Set() };
    this.#entries.set(name, entry);
    entry.possible.add(value);
    const answer = await work();
    this.#entries.set(name, { acknowledged: true, possible: new Set([value]) });
    return answer;
  }

  /** Names of which something was acknowledged. */
  get names(): string[] {
    return [...this.#entries].filter(([, { acknowledged }]) => acknowledged).map(([name]) => name);
  }

  /** Returns the problem with the value found under `name`. */
  problem(name: string, found: string | undefined): string | undefined {
    const entry = this.#entries.get(name);
    if (found === undefined) return entry?.acknowledged ? `${name} was acknowledged and is lost` : undefined;
    return entry?.possible.has(found) ? undefined : `${name} is not as it was last written`;
  }
}
