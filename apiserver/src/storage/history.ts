/**
 * The latest changes of one resource, bounded by number and size: what watches read. A position is the ordinal number
 * of a change; a watcher keeps its own, so a slow one needs no buffer: it falls off the end and is cut.
 */
import type { Change } from './stored-object.js';

const MAX_CHANGES = 4096;
const MAX_CHARACTERS = 64 * 1024 * 1024;

export class History {
  #changes: Change[] = [];
  /** Dropped from the front of #changes but not yet cut off it. */
  #dropped = 0;
  #first = 0;
  #characters = 0;

  /** @param complete every change after this revision is here */
  constructor(public complete: number) {}

  get end(): number {
    return this.#first + this.#changes.length - this.#dropped;
  }

  push(change: Change): void {
    this.#changes.push(change);
    this.#characters += change.stored.json.length;
    while (this.#changes.length - this.#dropped > MAX_CHANGES || this.#characters > MAX_CHARACTERS) this.#drop();
  }

  #drop(): void {
    const oldest = this.#changes[this.#dropped] as Change;
    this.complete = oldest.stored.revision;
    this.#characters -= oldest.stored.json.length;
    this.#dropped++;
    this.#first++;
    if (this.#dropped < MAX_CHANGES / 4) return;
    this.#changes = this.#changes.slice(this.#dropped);
    this.#dropped = 0;
  }

  /** The change at a position, unless it was dropped or is yet to come. */
  at(position: number): Change | undefined {
    return position < this.#first ? undefined : this.#changes[position - this.#first + this.#dropped];
  }

  holds(position: number): boolean {
    return position >= this.#first;
  }

  /** The position of the first change after `revision`, or undefined when some of those are gone. */
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
