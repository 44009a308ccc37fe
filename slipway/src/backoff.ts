const FIRST_MS = 250;
const LONGEST_MS = 15_000;

/** How long to wait before the try after `failures` in a row: doubled each time, bounded, and spread by half. */
export function backoffMs(failures: number, random = Math.random()): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1));
  return Math.round(most * (0.5 + random / 2));
}
