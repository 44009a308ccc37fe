/**
 * The pauses before an app's container starts again: none after its first end, then longer ones, until it has run for
 * some time. In: starts and ends. Out: the milliseconds until the next start.
 */
import { delayOf } from '@slipway/program';

const RESTARTS = { firstMs: 1_000, maxMs: 5 * 60_000 };
/** A container that ran for so long starts again at once. */
const STABLE_MS = 10 * 60_000;

export class RestartPauses {
  /** Ends in a row. */
  #ends = 0;
  #startAt = 0;
  #startedAt = 0;

  /** Milliseconds until the container may start. */
  get left(): number {
    return Math.max(0, this.#startAt - performance.now());
  }

  /** Forgets the ends of a former container. */
  reset(): void {
    this.#ends = 0;
    this.#startAt = 0;
    this.started();
  }

  started(): void {
    this.#startedAt = performance.now();
  }

  /** Counts an end. Returns the pause. */
  ended(): number {
    const wasStable = performance.now() - this.#startedAt > STABLE_MS;
    this.#ends = wasStable ? 1 : this.#ends + 1;
    return this.#pauseFor(this.#ends === 1 ? 0 : delayOf(RESTARTS, this.#ends - 1));
  }

  /** Counts a start after which the container did not serve. Returns the pause. */
  failed(): number {
    this.#ends += 1;
    return this.#pauseFor(delayOf(RESTARTS, this.#ends));
  }

  #pauseFor(milliseconds: number): number {
    this.#startAt = performance.now() + milliseconds;
    return milliseconds;
  }
}
