/**
 * Runs work on large inputs in short turns of the event loop. In: a generator, which yields about once a millisecond.
 * Out: its return value. Between two turns, requests of all projects are served. Only one job runs at a time, so that
 * many large inputs make no turn longer.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ConcurrencyLimit } from '@slipway/program';

export type Steps<T> = Generator<void, T, void>;

/**
 * Bytes of an input that are handled between two yields. Input that costs more than a few nanoseconds a byte counts as
 * more bytes.
 */
export const STEP_BYTES = 64 * 1024;

const TURN_MS = 4;
const jobs = new ConcurrencyLimit({ most: 1, waiting: 1_000, waitingOfOne: 200, firstMayWait: true });

/**
 * Runs a job. The first step runs synchronously, and is the only one of a small input. Throws `ConcurrencyLimitReached`
 * if too many large jobs are waiting.
 */
export async function inTurns<T>(ref: string, steps: Steps<T>): Promise<T> {
  const first = steps.next();
  return first.done ? first.value : jobs.run(ref, () => finish(steps));
}

async function finish<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    await nextTurn();
    const end = performance.now() + TURN_MS;
    do {
      const step = steps.next();
      if (step.done) return step.value;
    } while (performance.now() < end);
  }
}
