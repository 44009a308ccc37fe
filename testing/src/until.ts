import { setTimeout as pause } from 'node:timers/promises';

/** Pods on a busy machine are slow to start. But the test runner ends a file at its limit, without our error. */
const PATIENCE_MS = Math.min(180_000, Number(process.env.SLIPWAY_TEST_LIMIT_MS ?? Number.POSITIVE_INFINITY) / 2);
const FIRST_PAUSE_MS = 5;
/** Each poll costs processor time that the awaited program needs, so pauses grow with the time waited. */
const LONGEST_PAUSE_MS = 200;
const GROWTH = 1.1;
/** Characters of a result that an error shows. */
const MOST_SHOWN = 500;

/**
 * Returns the first truthy result of `look`, or the first that the predicate `wanted` accepts. After `patience`
 * milliseconds it throws an error that names the wanted condition or shows the last result.
 */
export async function until<T>(look: () => Promise<T> | T, wanted: string, patience?: number): Promise<NonNullable<T>>;
export async function until<T>(
  look: () => Promise<T> | T,
  wanted: (result: T) => boolean,
  patience?: number,
): Promise<T>;
export async function until<T>(
  look: () => Promise<T> | T,
  wanted: string | ((result: T) => boolean),
  patience = PATIENCE_MS,
): Promise<T> {
  const end = performance.now() + patience;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * GROWTH, LONGEST_PAUSE_MS)) {
    const result = await look();
    if (typeof wanted === 'string' ? result : wanted(result)) return result;
    if (performance.now() > end) throw new Error(`after ${patience / 1000} s still ${failure(wanted, result)}`);
    await pause(pauseMs);
  }
}

const failure = (wanted: unknown, result: unknown) =>
  typeof wanted === 'string' ? `not: ${wanted}` : `this: ${JSON.stringify(result)?.slice(0, MOST_SHOWN)}`;
