/**
 * Measures the processor time of one turn of the thread, as the median of five. On a core that is shared with other
 * processes, or whose other hardware thread is busy, the same work takes up to 2.5 times as long (measured beside three
 * busy processes). So a median above TURN_MS is measured again, each time beside work of known length.
 */

/** Maximum milliseconds of processor time for one input in one turn of the thread. */
export const TURN_MS = 20;

export const processorTimeOf = (work: () => unknown): number =>
  medianOfFive(() => {
    const elapsedMs = startWatch();
    work();
    return elapsedMs();
  });

/**
 * Returns a function that returns the milliseconds of processor time of this thread since this call. Some kernels count
 * it in ticks of 4 ms, so the exact elapsed time, which is never less, also bounds it.
 */
export function startWatch(): () => number {
  const [processor, clock] = [processorMs(), performance.now()];
  return () => Math.min(processorMs() - processor, performance.now() - clock);
}

/**
 * Older versions of Node have only the time of the process, which includes V8's helper threads for garbage collection.
 */
function processorMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}

/** Measures a turn five times in milliseconds, and five times more if the median is too long. */
export function medianOfFive(measure: () => number): number {
  const asMeasured = median(Array.from({ length: 5 }, measure));
  return asMeasured <= TURN_MS ? asMeasured : median(Array.from({ length: 5 }, () => measure() / slownessNow()));
}

/** Does the same for work that takes several turns. */
export async function medianOfFiveLater(measure: () => Promise<number>): Promise<number> {
  const five = async (measureOne: () => Promise<number>) => {
    const times: number[] = [];
    for (let round = 0; round < 5; round++) times.push(await measureOne());
    return median(times);
  };
  const asMeasured = await five(measure);
  return asMeasured <= TURN_MS ? asMeasured : five(async () => (await measure()) / slownessNow());
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] as number;

const KNOWN_WORK = JSON.stringify(
  Array.from({ length: 4_000 }, (_, i) => ({ id: i, name: `n${i}`, tags: ['a', `b${i}`], at: { x: i / 3 } })),
);

/** Milliseconds that the known work takes on an idle core of the machine for which the limits were chosen. */
const KNOWN_WORK_MS = 3.5;

/** Returns the factor by which this core is slower now; at least 1, so that a fast machine makes no limit stricter. */
function slownessNow(): number {
  const times = Array.from({ length: 7 }, () => {
    const elapsedMs = startWatch();
    JSON.parse(KNOWN_WORK);
    return elapsedMs();
  });
  return Math.max(1, median(times) / KNOWN_WORK_MS);
}
