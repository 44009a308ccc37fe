/** The interface of each kind of channel. */
import type { DueDelivery, LeasedChannel } from '../deliveries.repository.js';
import type { Failure } from '../retries.js';

export type Sent =
  | { kind: 'delivered'; status?: number }
  | { kind: 'failed'; failure: Failure }
  /** There is nobody to deliver to. */
  | { kind: 'skipped'; reason: string };

export interface Sender {
  /** Deliveries that one message may report. */
  most: number;
  /** Milliseconds until the next message of the channel, so that a burst becomes few messages. */
  pauseMs(channel: LeasedChannel): number;
  /** Does not throw. */
  send(channel: LeasedChannel, deliveries: readonly DueDelivery[], now: Date): Promise<Sent>;
}

export const skipped = (reason: string): Sent => ({ kind: 'skipped', reason });
export const failed = (failure: Failure): Sent => ({ kind: 'failed', failure });
