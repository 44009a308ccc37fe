/**
 * The latest changes of one resource, limited by number and size. Watches read it. A position is the ordinal number of
 * a change. Each watch keeps its own position, so a slow watch needs no buffer: once the change at its position is
 * dropped, the watch ends.
 */
import type { Change } from './stored-object.js';

const MAX_CHANGES = 4096;
/**
 * Maximum bytes of the versions before and after the changes. Both count, because the version before may be in no other
 * change.
 */
const MAX_BYTES = 64 * 1024 * 1024;

const bytesOf = ({ stored, previous }: Change): number => stored.bytes.length + (previous?.bytes.length ?? 0);

export class History {
  #changes: Change[] = [];
  /** The number of changes that are dropped, but still at the front of #changes. */
  #dropped = 0;
  #first = 0;
  #bytes = 0;

  /** @param complete the revision after which no change is missing */
  constructor(public complete: number) {}

  get end(): number {
    return this.#first + this.#changes.length - this.#dropped;
  }

  push(change: Change): void {
    this.#changes.push(change);
    this.#bytes += bytesOf(change);
    while (this.#changes.length - this.#dropped > MAX_CHANGES || this.#bytes > MAX_BYTES) this.#drop();
  }

  #drop(): void {
    const oldest = this.#changes[this.#dropped] as Change;
    this.complete = oldest.stored.revision;
    this.#bytes -= bytesOf(oldest);
    this.#dropped++;
    this.#first++;
    if (this.#dropped < MAX_CHANGES / 4) return;
    this.#changes = this.#changes.slice(this.#dropped);
    this.#dropped = 0;
  }

  /** Returns the change at a position, or undefined if it was dropped or does not exist yet. */
  at(position: number): Change | undefined {
    return position < this.#first ? undefined : this.#changes[position - this.#first + this.#dropped];
  }

  holds(position: number): boolean {
    return position >= this.#first;
  }

  /** Returns the position of the first change after `revision`, or undefined if some of these were dropped. */
  after(revision: number): number | undefined {
    if (revision < this.complete) return undefined;
    let low = this.#first;
    let high = this.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.at(middle) as Change).stored.revision > revision) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
