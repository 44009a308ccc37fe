/** Estimates the remaining time of a series of benches. Called by `main.ts`. */

/** Returns `about 12 min`, if the other benches take as long as those that are done. `elapsedMs` is the time so far. */
export function timeLeft(done: number, total: number, elapsedMs: number): string {
  const minutes = (elapsedMs / done) * ((total - done) / 60_000);
  return minutes < 1 ? 'less than 1 min' : `about ${Math.round(minutes)} min`;
}
