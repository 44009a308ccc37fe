/**
 * Logs turns of the event loop that use much processor time, because all other requests wait for their end. In: the
 * processor time of the main thread, each 100 ms. Out: a line in the log. Started with the watchdog.
 *
 * If the 100 ms timer is late, the turn that delayed it began before it was due. That turn used all processor time
 * since the last measurement, except for at most 100 ms: a turn of less than LONG_TURN_MS is never logged, and one of
 * 100 ms more always is. Time in which the thread does not run is not counted.
 */
import { logLine } from './log-line.js';
import type { UnderWay } from './under-way.js';

/** Milliseconds of processor time from which a turn is logged. */
export const LONG_TURN_MS = 250;
export const LONG_TURN_MESSAGE = 'turn used much processor time';
const LOOK_MS = 100;

export class TurnMeter {
  #lastMs: number | undefined;

  /**
   * `processorMs` is the thread's. Returns a lower bound of the processor time of one turn since the last measurement.
   */
  look(processorMs: number): number {
    const used = processorMs - (this.#lastMs ?? processorMs);
    this.#lastMs = processorMs;
    return Math.max(used - LOOK_MS, 0);
  }
}

/** Returns a function to call at the end of a turn, whose names `state` still has. */
export function logLongTurns(program: string, state: UnderWay): () => void {
  // Since Node 23.9. Without it nothing is logged, because the time of all threads says little about one.
  if (typeof process.threadCpuUsage !== 'function') return () => undefined;
  const meter = new TurnMeter();
  let lookedAt = 0;
  const look = () => {
    lookedAt = performance.now();
    const { user, system } = process.threadCpuUsage();
    const processorMs = Math.round(meter.look((user + system) / 1000));
    if (processorMs < LONG_TURN_MS) return;
    const { project, operation } = state;
    process.stdout.write(logLine('warn', program, { project, operation, processorMs }, LONG_TURN_MESSAGE));
  };
  look();
  setInterval(look, LOOK_MS).unref();
  return () => {
    if (performance.now() - lookedAt >= LONG_TURN_MS) look();
  };
}
