/**
 * Decides what follows from an attempt to deliver. In: the delivery, its channel, the outcome and the time. Out: when
 * the delivery is tried again, and whether the channel rests or is switched off. Pure.
 */
import { type Backoff, delayOf } from '@slipway/program';

const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000];
/** Delays before the attempts after the first one. */
const RETRIES_MS = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR] as const;
export const MOST_ATTEMPTS = RETRIES_MS.length + 1;
/** Share of a delay that is added at random, so that deliveries do not all come back at once. */
const JITTER = 0.1;
/** A delivery that waited for this long behind others fails with its first attempt. */
const LONGEST_MS = RETRIES_MS.reduce((sum, delay) => sum + delay) * (1 + JITTER);
/** Milliseconds for which a channel rests after failures, so that one attempt stands for all waiting deliveries. */
const REST: Backoff = { firstMs: 5 * SECOND, maxMs: 5 * MINUTE, jitter: 0 };
export const OFF_AFTER_MS = 5 * 24 * HOUR;
const MOST_RETRY_AFTER_MS = HOUR;

export interface Failure {
  /** Text for the owner, without the receiver's words. */
  error: string;
  /** Status of the response, if there was one. */
  status?: number;
  /** The receiver requested that nothing is sent for this long. */
  retryAfterMs?: number | undefined;
  /** The receiver does not exist any longer: the channel is switched off at once. */
  isGone?: boolean;
}

export interface FailedDelivery {
  /** Attempts before this one. */
  attempts: number;
  createdAt: Date;
}

export interface FailedChannel {
  /** Failed attempts in a row before this one. */
  failures: number;
  failingSince: Date | null;
}

/** Undefined `nextAt`: the delivery has failed. */
export function afterFailure(
  delivery: FailedDelivery,
  channel: FailedChannel,
  { retryAfterMs = 0, isGone = false }: Failure,
  now: Date,
  random: () => number = Math.random,
): { nextAt: Date | undefined; pausedUntil: Date; isOff: boolean } {
  const failingSince = channel.failingSince ?? now;
  const requested = Math.min(retryAfterMs, MOST_RETRY_AFTER_MS);
  const rest = delayOf(REST, channel.failures + 1);
  return {
    nextAt: retryOf(delivery, requested, now, random),
    pausedUntil: new Date(now.getTime() + Math.max(rest, requested)),
    isOff: isGone || now.getTime() - failingSince.getTime() >= OFF_AFTER_MS,
  };
}

function retryOf({ attempts, createdAt }: FailedDelivery, requested: number, now: Date, random: () => number) {
  const delay = RETRIES_MS[attempts];
  if (delay === undefined || now.getTime() - createdAt.getTime() > LONGEST_MS) return undefined;
  return new Date(now.getTime() + Math.max(delay * (1 + JITTER * random()), requested));
}
