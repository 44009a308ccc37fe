/**
 * Stored times that somebody waits for. A time that is more than a day ahead was stored while the clock was wrong: no
 * lease, rest or delay is longer. It counts as reached.
 */
const FURTHEST_MS = 24 * 3_600_000;

const furthest = (now: Date): Date => new Date(now.getTime() + FURTHEST_MS);

/** Returns the SQL condition that the time in the column is reached. Its values are those of `reachedValues`. */
export const isReached = (column: string): string => `(${column} <= ? or ${column} > ?)`;
export const reachedValues = (now: Date): [Date, Date] => [now, furthest(now)];

/** True if the clock was wrong when the time was stored. */
export const isTooFarAhead = (time: Date, now: Date): boolean => time > furthest(now);
