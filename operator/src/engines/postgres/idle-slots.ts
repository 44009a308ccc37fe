/** Drops replication slots that nobody reads any more, now and then: what the data plane left behind when it was killed. Called by the engine. */
import { dropIdleReplicationSlots } from '@slipway/project-database';
import type { Logger } from 'pino';
import type { ClusterSessions } from './cluster-sessions.js';

const LOOK_MS = 60_000;
/** As Postgres' idle_replication_slot_timeout, after which it gives a slot up. */
const IDLE_SECONDS = 600;

export class IdleSlots {
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly sessions: ClusterSessions,
    private readonly log: Logger,
  ) {}

  start(): void {
    this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    try {
      const dropped = await dropIdleReplicationSlots(this.sessions, IDLE_SECONDS);
      if (dropped.length > 0) this.log.info({ slots: dropped }, 'replication slots that nobody reads were dropped');
    } catch (error) {
      // One that was taken up again in between, or Postgres away: the next look is soon.
      this.log.warn({ why: (error as Error).message }, 'idle replication slots could not be dropped');
    }
  }
}
