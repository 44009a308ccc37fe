/** Exponential delays with jitter, so that many that failed together don't come back together. */
export interface Backoff {
  firstMs: number;
  maxMs: number;
}

/** The delay before try `attempt` (1 is the first retry): between half and the whole of first·2^(attempt-1), capped. */
export function delayOf({ firstMs, maxMs }: Backoff, attempt: number, random: () => number = Math.random): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return Math.ceil(full * (0.5 + random() / 2));
}
