/** Runs all steps of a job for tests, and measures them. */
import { startWatch } from '@slipway/testing';
import type { Steps } from '../bounds/turns.js';

export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Returns the processor time of each step in milliseconds. An error ends the job. */
export function stepTimesOf(steps: Steps<unknown>): number[] {
  const times: number[] = [];
  for (let isOver = false; !isOver; ) {
    const elapsedMs = startWatch();
    try {
      isOver = steps.next().done === true;
    } catch {
      isOver = true;
    }
    times.push(elapsedMs());
  }
  return times;
}
