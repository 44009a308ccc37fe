/**
 * Limits of realtime by plan: upstream's quotas. Data; the code that enforces a limit reports it in upstream's words.
 */
import type { Plan } from '@slipway/crds';

export interface RealtimeLimits {
  /** Sockets at once. */
  connections: number;
  channelsPerConnection: number;
  joinsPerSecond: number;
  /** Broadcasts, from clients, REST and the database together. */
  eventsPerSecond: number;
  presenceEventsPerSecond: number;
  /** Bytes of the payload of a broadcast or a presence. */
  payloadBytes: number;
  /**
   * Bytes of everything that the project's channels keep: join parameters and tracked presences. The same bytes again
   * for messages that wait on all of them.
   */
  heldBytes: number;
  /** Bytes of the presences of one topic, which each client that joins receives in one message. */
  presenceBytes: number;
  /** Bytes of a change: a larger record is cut to its small values. */
  recordBytes: number;
}

const KIB = 1024;
const SMALL: RealtimeLimits = {
  connections: 200,
  channelsPerConnection: 100,
  joinsPerSecond: 100,
  eventsPerSecond: 100,
  presenceEventsPerSecond: 20,
  payloadBytes: 256 * KIB,
  heldBytes: 32 * KIB * KIB,
  presenceBytes: KIB * KIB,
  recordBytes: 1024 * KIB,
};
const MIDDLE: RealtimeLimits = {
  ...SMALL,
  connections: 500,
  joinsPerSecond: 500,
  eventsPerSecond: 500,
  presenceEventsPerSecond: 50,
  payloadBytes: 3000 * KIB,
  heldBytes: 128 * KIB * KIB,
  presenceBytes: 4 * KIB * KIB,
};
const LARGE: RealtimeLimits = {
  ...MIDDLE,
  connections: 10_000,
  joinsPerSecond: 2500,
  eventsPerSecond: 2500,
  presenceEventsPerSecond: 1000,
  heldBytes: 512 * KIB * KIB,
};

export const LIMITS: Readonly<Record<Plan, RealtimeLimits>> = {
  free: SMALL,
  starter: SMALL,
  pro: MIDDLE,
  team: LARGE,
  enterprise: LARGE,
};

/** The largest message that is read off a socket at all: any plan's payload and what is around it. */
export const MAX_MESSAGE_BYTES = 3200 * KIB;
/** Bytes of a join: its configuration and its token. */
export const MAX_JOIN_BYTES = 64 * KIB;
/** Bytes that may wait for a slow client, one message apart; beyond it the socket is closed with SLOW_CLIENT. */
export const MAX_BUFFERED_BYTES = 8 * KIB * KIB;
/** Close codes of ours: 1013 is "try again later" (RFC 6455 registry). */
export const SLOW_CLIENT = { code: 1013, reason: 'client reads too slowly' } as const;
export const TOO_MANY_JOINS = { code: 1008, reason: 'too many joins' } as const;
export const REVOKED = { code: 1008, reason: 'the API key is no longer good' } as const;
export const IDLE = { code: 1000, reason: 'no heartbeat' } as const;
export const FAILED = { code: 1011, reason: 'the server failed' } as const;
export const GOING_AWAY = { code: 1001, reason: 'the project changed or the server stops' } as const;
/** A client that sends nothing, heartbeats included, for so long is gone. */
export const IDLE_MS = 60_000;

/** So much may come at once, in seconds of the rate: clients send in bursts. */
const BURST_SECONDS = 2;

/** A rate with a burst: `take` says whether `count` more fit. */
export class RateLimit {
  private tokens: number;
  private refilledAt = performance.now();

  constructor(private readonly perSecond: number) {
    this.tokens = perSecond * BURST_SECONDS;
  }

  take(count = 1): boolean {
    const now = performance.now();
    const refill = ((now - this.refilledAt) / 1000) * this.perSecond;
    this.tokens = Math.min(this.perSecond * BURST_SECONDS, this.tokens + refill);
    this.refilledAt = now;
    if (this.tokens < count) return false;
    this.tokens -= count;
    return true;
  }
}

/** A budget: `take` returns false if `count` more do not fit. A negative count frees. */
export class Budget {
  private held = 0;

  constructor(private readonly most: number) {}

  take(count: number): boolean {
    if (count > 0 && this.held + count > this.most) return false;
    this.held += count;
    return true;
  }
}
