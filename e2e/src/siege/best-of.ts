/**
 * Repeats a measurement that other work of the machine can only make worse, until it is good enough. In: the
 * measurement, and limits. Out: the lowest result. The siege uses it.
 */

export interface TryLimits {
  /** No further try is made after a result of at most this. */
  enough: number;
  tries: number;
  /** True if there is no time for a further try. */
  isOver: () => boolean;
}

/** Returns the lowest result. An error of `measure` ends the tries. */
export async function lowestOf(
  measure: (attempt: number) => Promise<number>,
  { enough, tries, isOver }: TryLimits,
): Promise<number> {
  let lowest = await measure(1);
  for (let attempt = 2; lowest > enough && attempt <= tries && !isOver(); attempt++) {
    lowest = Math.min(lowest, await measure(attempt));
  }
  return lowest;
}
