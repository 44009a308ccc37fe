/**
 * Computes the delays of a backoff: exponential with jitter, so that clients that failed together don't retry together.
 */
export interface Backoff {
  firstMs: number;
  maxMs: number;
  /** Random part of each delay, from 0 to 1. Default: half. */
  jitter?: number;
}

/** Returns the delay in milliseconds before retry `attempt`, from 1: at most first·2^(attempt-1), capped. */
export function delayOf(backoff: Backoff, attempt: number, random: () => number = Math.random): number {
  const { firstMs, maxMs, jitter = 0.5 } = backoff;
  const full = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return Math.ceil(full * (1 - jitter + jitter * random()));
}
