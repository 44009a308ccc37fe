/**
 * Resolves host names that tenants chose, in the background. In: names of a project. Out: their addresses as last
 * resolved, and a call when those of a project have changed. One look-up runs at a time, because the system's resolver
 * has few threads and other parts of this program need them. So a name server that does not respond delays only other
 * names, and the projects take turns.
 */
import { lookup } from 'node:dns/promises';

export type Lookup = (name: string) => Promise<readonly string[]>;

export const systemLookup: Lookup = async (name) => (await lookup(name, { all: true })).map(({ address }) => address);

/** Milliseconds after which a name is resolved again. */
const FRESH_MS = 10 * 60_000;
/** The same for a name that did not resolve, such as while the network of the machine starts. */
const FAILED_MS = 60_000;
/** Maximum number of addresses of a name. */
const MAX_ADDRESSES = 100;
/** Further names are not resolved. If they replaced fresh ones, those would be due again, without an end. */
const MAX_NAMES = 4_000;
const MAX_PROJECTS_WAITING = 10_000;

interface Resolved {
  addresses: readonly string[];
  until: number;
}

interface Waiting {
  names: string[];
  hasChanged: boolean;
}

export class HostAddresses {
  readonly #resolved = new Map<string, Resolved>();
  readonly #waiting = new Map<string, Waiting>();
  #isBusy = false;
  #isClosed = false;

  /** `onChange`: called with the ref of a project whose names have been resolved to other addresses than before. */
  constructor(
    private readonly lookup: Lookup,
    private readonly onChange: (ref: string) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /**
   * Returns the last known addresses of a name: undefined before the first look-up has ended, and none if the name does
   * not resolve. Returns at once, and starts the look-ups that are due.
   */
  of(ref: string, names: readonly string[]): (name: string) => readonly string[] | undefined {
    const due = names.filter((name) => this.#isDue(name));
    const hasPlace = this.#waiting.has(ref) || this.#waiting.size < MAX_PROJECTS_WAITING;
    if (due.length > 0 && hasPlace && !this.#isClosed) {
      this.#waiting.set(ref, { names: due, hasChanged: this.#waiting.get(ref)?.hasChanged ?? false });
      void this.#work();
    }
    return (name) => this.#resolved.get(name)?.addresses;
  }

  /** Starts no further look-up. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.clear();
  }

  #isDue(name: string): boolean {
    const [oldest] = this.#resolved.values();
    const known = this.#resolved.get(name) ?? (this.#resolved.size < MAX_NAMES ? undefined : oldest);
    return known === undefined || known.until <= this.now();
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (let ref = this.#next(); ref !== undefined; ref = this.#next()) await this.#resolveNameOf(ref);
    this.#isBusy = false;
  }

  #next = (): string | undefined => this.#waiting.keys().next().value;

  /** Resolves one name of the project, which then waits behind the other projects. */
  async #resolveNameOf(ref: string): Promise<void> {
    const waiting = this.#waiting.get(ref) as Waiting;
    this.#waiting.delete(ref);
    const [name, ...names] = waiting.names;
    const hasChanged = (name !== undefined && (await this.#resolve(name))) || waiting.hasChanged;
    if (this.#isClosed) return;
    // A reconcile during the look-up replaces the names.
    const next = this.#waiting.get(ref)?.names ?? names;
    if (next.length > 0) this.#waiting.set(ref, { names: next, hasChanged });
    else if (hasChanged) this.onChange(ref);
  }

  /** Returns true if the addresses are others than before. A name that no longer resolves keeps its addresses. */
  async #resolve(name: string): Promise<boolean> {
    // Another project may have the same name.
    if (!this.#isDue(name)) return this.#resolved.has(name);
    const before = this.#resolved.get(name)?.addresses;
    const found = await this.lookup(name).catch(() => undefined);
    const addresses = [...(found ?? before ?? [])].slice(0, MAX_ADDRESSES).sort();
    this.#resolved.delete(name);
    this.#resolved.set(name, { addresses, until: this.now() + (found ? FRESH_MS : FAILED_MS) });
    const [oldest] = this.#resolved.keys();
    if (this.#resolved.size > MAX_NAMES) this.#resolved.delete(oldest as string);
    return before === undefined || addresses.join() !== before.join();
  }
}
