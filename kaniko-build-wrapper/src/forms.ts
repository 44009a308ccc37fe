/**
 * An Aho–Corasick automaton, which searches for many texts at once. The texts are called forms here. In: forms, and the
 * characters of an input. Out: after each character, the longest form that ends there. The average cost of a character
 * does not depend on the number of forms. Memory: 20 bytes for each character of the forms.
 *
 * State 0 is the start. Once a form branches off from all forms before it, its states have consecutive numbers. So only
 * branches need a table.
 */
import type { Steps } from '@slipway/program';

/** The consecutive states of a form after it branches off from the forms before it. */
interface Chain {
  form: string;
  parent: number;
  start: number;
  end: number;
}

/** Number of characters that are added or linked between two yields, which takes at most a millisecond. */
const STEP = 8_192;
const CODE_UNITS = 65_536;

export class Forms {
  /** For each state, the length of the text that leads to it. */
  readonly depths: Int32Array;
  /** For each state, the length of the longest form that ends there, or 0. */
  readonly matches: Int32Array;
  /** For each state, the state of the longest shorter text with the same end. */
  readonly #shorter: Int32Array;
  /** For each state, the character that leads to the next number, or -1. */
  readonly #next: Int32Array;
  /** For each state, the number of its branches in the table, or 0. */
  readonly #branchesOf: Int32Array;
  readonly #branches = new Map<number, number>();
  readonly #first = new Int32Array(CODE_UNITS);
  readonly #chains: Chain[] = [];
  #states = 1;
  #branching = 0;

  private constructor(characters: number) {
    this.depths = new Int32Array(characters + 1);
    this.matches = new Int32Array(characters + 1);
    this.#shorter = new Int32Array(characters + 1);
    this.#next = new Int32Array(characters + 1).fill(-1);
    this.#branchesOf = new Int32Array(characters + 1);
  }

  static *of(forms: readonly string[]): Steps<Forms> {
    const automaton = new Forms(forms.reduce((sum, { length }) => sum + length, 0));
    for (const form of forms) yield* automaton.#add(form);
    yield* automaton.#link();
    return automaton;
  }

  /** Returns the state after a character. */
  after(state: number, character: number): number {
    for (let at = state; ; at = this.#shorter[at] as number) {
      const next = this.#child(at, character);
      if (next !== 0 || at === 0) return next;
    }
  }

  /** Returns the text that leads to a state. */
  textOf(state: number): string {
    let [low, high] = [0, this.#chains.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#chains[middle] as Chain).end <= state) low = middle + 1;
      else high = middle;
    }
    return state === 0 ? '' : (this.#chains[low] as Chain).form.slice(0, this.depths[state]);
  }

  #child(state: number, character: number): number {
    if (state === 0) return this.#first[character] as number;
    if (this.#next[state] === character) return state + 1;
    const branches = this.#branchesOf[state] as number;
    return branches === 0 ? 0 : (this.#branches.get(branches * CODE_UNITS + character) ?? 0);
  }

  *#add(form: string): Steps<void> {
    let state = 0;
    let depth = 0;
    for (let next = 0; depth < form.length; depth += 1, state = next) {
      next = this.#child(state, form.charCodeAt(depth));
      if (next === 0) break;
      if (depth % STEP === 0) yield;
    }
    if (depth < form.length) {
      const start = this.#states;
      this.#branch(state, form.charCodeAt(depth), start);
      this.#chains.push({ form, parent: state, start, end: start + form.length - depth });
      for (; depth < form.length; depth += 1, this.#states += 1) {
        if (this.#states > start) this.#next[this.#states - 1] = form.charCodeAt(depth);
        this.depths[this.#states] = depth + 1;
        if (depth % STEP === 0) yield;
      }
      state = this.#states - 1;
    }
    this.matches[state] = form.length;
  }

  #branch(state: number, character: number, next: number): void {
    if (state === 0) {
      this.#first[character] = next;
      return;
    }
    if (this.#branchesOf[state] === 0) this.#branchesOf[state] = ++this.#branching;
    this.#branches.set((this.#branchesOf[state] as number) * CODE_UNITS + character, next);
  }

  /** Links all states in the order of their depth, because a link leads to a smaller depth. */
  *#link(): Steps<void> {
    const waiting = this.#chains.toSorted((a, b) => this.#depthOf(b) - this.#depthOf(a));
    let open: Chain[] = [];
    let done = 0;
    for (let depth = 1; open.length > 0 || waiting.length > 0; depth += 1) {
      while (waiting.length > 0 && this.#depthOf(waiting.at(-1) as Chain) === depth) open.push(waiting.pop() as Chain);
      let ended = false;
      for (const chain of open) {
        const state = chain.start + depth - this.#depthOf(chain);
        this.#linkState(state, state === chain.start ? chain.parent : state - 1, chain.form.charCodeAt(depth - 1));
        ended ||= state + 1 === chain.end;
        done += 1;
        if (done % STEP === 0) yield;
      }
      if (ended) open = open.filter((chain) => chain.start + depth + 1 - this.#depthOf(chain) < chain.end);
    }
  }

  #linkState(state: number, parent: number, character: number): void {
    const shorter = parent === 0 ? 0 : this.after(this.#shorter[parent] as number, character);
    this.#shorter[state] = shorter;
    this.matches[state] ||= this.matches[shorter] as number;
  }

  #depthOf(chain: Chain): number {
    return this.depths[chain.start] as number;
  }
}
