/**
 * Functions with damaged files on disk. In: the store's errors at start. Out: the response to their callers, and one
 * report to the operator, which deploys each of them again.
 */
import { keyOf } from './function.js';

interface Unreadable {
  ref: string;
  name: string;
  message: string;
  isReported: boolean;
}

export class UnreadableFunctions {
  readonly #all = new Map<string, Unreadable>();

  add(ref: string, name: string, why: string): void {
    const message = `what is on disk of the function is unreadable (${why}): the function is deployed again`;
    this.#all.set(keyOf(ref, name), { ref, name, message, isReported: false });
  }

  has(ref: string, name: string): boolean {
    return this.#all.has(keyOf(ref, name));
  }

  /** Returns the problem once, for the operator to write to the status before it deploys the function again. */
  report(ref: string, name: string): string | undefined {
    const problem = this.#all.get(keyOf(ref, name));
    if (problem === undefined || problem.isReported) return undefined;
    problem.isReported = true;
    return problem.message;
  }

  forget(ref: string, name: string): void {
    this.#all.delete(keyOf(ref, name));
  }

  all(): { ref: string; name: string }[] {
    return [...this.#all.values()].map(({ ref, name }) => ({ ref, name }));
  }
}
