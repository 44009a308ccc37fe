/** Limits of realtime that are equal on every plan, their close codes, and their counters. */
import { TokenBucket } from '@slipway/program';

const KIB = 1024;

/** Maximum bytes of a message from a socket: any plan's payload and its envelope. */
export const MAX_MESSAGE_BYTES = 3200 * KIB;
/** Maximum bytes of a join: its configuration and token. */
export const MAX_JOIN_BYTES = 64 * KIB;
/**
 * Maximum bytes that may wait for a slow client, in addition to one message. Beyond them, the socket is closed with
 * SLOW_CLIENT.
 */
export const MAX_BUFFERED_BYTES = 8 * KIB * KIB;
/** Code and reason with which the socket of a slow client is closed: 1013 is "try again later" (RFC 6455 registry). */
export const SLOW_CLIENT = { code: 1013, reason: 'client reads too slowly' } as const;
export const TOO_MANY_JOINS = { code: 1008, reason: 'too many joins' } as const;
/** Code and reason for a socket if too many large messages, of the project or of all projects, wait to be decoded. */
export const TOO_MANY_LARGE = { code: 1013, reason: 'too many large messages at once' } as const;
export const REVOKED = { code: 1008, reason: 'the API key is no longer good' } as const;
export const IDLE = { code: 1000, reason: 'no heartbeat' } as const;
export const FAILED = { code: 1011, reason: 'the server failed' } as const;
export const GOING_AWAY = { code: 1001, reason: 'the project changed or the server stops' } as const;
/** Milliseconds after which a client that sends nothing, not even heartbeats, is disconnected. */
export const IDLE_MS = 60_000;

/** Size of a token bucket, in seconds of its rate. Buckets are needed because clients send in bursts. */
const BURST_SECONDS = 2;

export const newBucket = (perSecond: number) => new TokenBucket({ burst: perSecond * BURST_SECONDS, perSecond });

/** Budget. `take` returns false if `count` more do not fit. A negative count releases. */
export class Budget {
  private used = 0;

  constructor(private readonly most: number) {}

  take(count: number): boolean {
    if (count > 0 && this.used + count > this.most) return false;
    this.used += count;
    return true;
  }
}
