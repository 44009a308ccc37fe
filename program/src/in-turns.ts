/**
 * Runs work in short turns of the event loop. In: a generator, which yields about once a millisecond. Out: its return
 * value. Other work runs between two turns.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

export type Steps<T> = Generator<void, T, void>;

const TURN_MS = 4;

export async function runInTurns<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const end = performance.now() + TURN_MS;
    do {
      const step = steps.next();
      if (step.done) return step.value;
    } while (performance.now() < end);
    await nextTurn();
  }
}
