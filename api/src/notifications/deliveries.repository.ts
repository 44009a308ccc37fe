/**
 * Deliveries that wait in the outbox. A process delivers on a channel while it has the lease of the channel, one
 * message after another: a process that is killed leaves at most one message whose outcome is not recorded.
 */
import { randomUUID } from 'node:crypto';
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import type { EventType } from '../outbox/events.js';
import { isReached, reachedValues } from '../outbox/reached-times.js';
import { sqlArray, sqlTime, sqlTimeOrNull } from '../outbox/sql-values.js';
import { afterFailure, type Failure } from './retries.js';

export type ChannelKind = 'mail' | 'slack' | 'webhook';

export interface LeasedChannel {
  id: number;
  kind: ChannelKind;
  lease: string;
  projectId: number | null;
  ref: string | null;
  /** The account that owns the project, or whose events the channel has. */
  ownerId: number | null;
  url: string | null;
  secret: string | null;
  formerSecret: string | null;
  formerUntil: Date | null;
  failures: number;
  failingSince: Date | null;
}

export interface DueDelivery {
  id: string;
  attempts: number;
  eventId: string;
  type: EventType;
  occurredAt: Date;
  createdAt: Date;
  data: Record<string, unknown>;
}

type Texts<T, Names extends keyof T> = Omit<T, Names> & {
  [Name in Names]: T[Name] extends Date ? string : string | null;
};
type LeasedRow = Texts<LeasedChannel, 'formerUntil' | 'failingSince'>;
type DueRow = Texts<DueDelivery, 'occurredAt' | 'createdAt'>;

/** An attempt, as the owner sees it. */
export interface Attempt {
  at: string;
  ms: number;
  status?: number;
  error?: string;
}

/** Longer than an attempt may take. */
const LEASE_MS = 45_000;
const later = (now: Date, ms: number) => new Date(now.getTime() + ms);

@Injectable()
export class DeliveriesRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Leases the channel with due deliveries that was served least recently. `busy`: accounts to be left out. */
  async lease(now: Date, busy: readonly number[]): Promise<LeasedChannel | undefined> {
    const [row] = await this.rows<LeasedRow>(
      `update platform.notification_channels c set lease = ?, leased_until = ?
       from (
         select c.id, p.ref, coalesce(p.owner_id, c.user_id) as owner_id
         from platform.notification_channels c left join platform.projects p on p.id = c.project_id
         where c.disabled_at is null
           and (c.paused_until is null or ${isReached('c.paused_until')})
           and (c.leased_until is null or ${isReached('c.leased_until')})
           -- Not to the former owner's receivers, which the transfer is about to delete.
           and (c.project_id is null or (p.owner_id is not null and p.rotation_step <> 1))
           and not coalesce(p.owner_id, c.user_id, 0) = any (?::integer[])
           and exists (
             select from platform.notification_deliveries d
             where d.channel_id = c.id and d.status = 'pending' and ${isReached('d.next_at')}
           )
         order by c.leased_until nulls first, c.id limit 1 for update of c skip locked
       ) due
       where c.id = due.id
       returning c.id, c.kind, c.lease, c.project_id as "projectId", due.ref, due.owner_id as "ownerId", c.url,
         c.secret, c.former_secret as "formerSecret", c.former_until as "formerUntil", c.failures,
         c.failing_since as "failingSince"`,
      [
        randomUUID(),
        later(now, LEASE_MS),
        ...reachedValues(now),
        ...reachedValues(now),
        sqlArray(busy),
        ...reachedValues(now),
      ],
    );
    if (!row) return undefined;
    const { formerUntil, failingSince, ...channel } = row;
    return { ...channel, formerUntil: sqlTimeOrNull(formerUntil), failingSince: sqlTimeOrNull(failingSince) };
  }

  /** Extends the lease, and returns the oldest due deliveries. None if the lease was lost, or the channel rests. */
  async due({ id, lease }: LeasedChannel, now: Date, most: number): Promise<DueDelivery[]> {
    const rows = await this.rows<DueRow>(
      `with leased as (
         update platform.notification_channels set leased_until = ?
         where id = ? and lease = ? and disabled_at is null
           and (paused_until is null or ${isReached('paused_until')})
         returning id
       )
       select d.id, d.attempts, e.id as "eventId", e.type, e.occurred_at as "occurredAt", e.created_at as "createdAt",
         e.data
       from leased join platform.notification_deliveries d on d.channel_id = leased.id
         join platform.notification_events e on e.id = d.event_id
       where d.status = 'pending' and ${isReached('d.next_at')} order by d.next_at, d.id limit ?`,
      [later(now, LEASE_MS), id, lease, ...reachedValues(now), ...reachedValues(now), most],
    );
    return rows.map(({ occurredAt, createdAt, ...row }) => ({
      ...row,
      occurredAt: sqlTime(occurredAt),
      createdAt: sqlTime(createdAt),
    }));
  }

  async release({ id, lease }: LeasedChannel, now: Date): Promise<void> {
    const sql = `update platform.notification_channels set lease = null, leased_until = ?
       where id = ? and lease = ? returning id`;
    await this.rows(sql, [now, id, lease]);
  }

  /** Records a success. Deliveries that waited for a retry are due now, because the receiver works again. */
  async delivered(
    channel: LeasedChannel,
    deliveries: readonly DueDelivery[],
    attempt: Attempt,
    { now, pauseMs }: { now: Date; pauseMs: number },
  ): Promise<void> {
    await this.orm.em.fork().transactional(async (em) => {
      await this.finish(em, deliveries, 'delivered', attempt);
      await em.execute(
        `update platform.notification_channels
         set failures = 0, failing_since = null, last_error = null, paused_until = ? where id = ? returning id`,
        [pauseMs > 0 ? later(now, pauseMs) : null, channel.id],
      );
      if (channel.failures === 0) return;
      await em.execute(
        `update platform.notification_deliveries set next_at = ?
         where channel_id = ? and status = 'pending' and next_at > ? returning id`,
        [now, channel.id, now],
      );
    });
    channel.failures = 0;
    channel.failingSince = null;
  }

  async failed(
    channel: LeasedChannel,
    deliveries: readonly DueDelivery[],
    { attempt, failure, now }: { attempt: Attempt; failure: Failure; now: Date },
  ): Promise<void> {
    const outcomes = deliveries.map((delivery) => ({ delivery, ...afterFailure(delivery, channel, failure, now) }));
    const [first] = outcomes;
    if (!first) return;
    // The mail server is the installation's: no owner could switch the mails of an account on again.
    const isOff = first.isOff && channel.kind !== 'mail';
    await this.orm.em.fork().transactional(async (em) => {
      for (const { delivery, nextAt } of outcomes) {
        if (nextAt) await this.retry(em, delivery, attempt, nextAt);
        else await this.finish(em, [delivery], 'failed', attempt);
      }
      await em.execute(
        `update platform.notification_channels
         set failures = failures + 1, failing_since = coalesce(failing_since, ?), last_error = ?, paused_until = ?,
           disabled_at = ?
         where id = ? returning id`,
        [now, failure.error, first.pausedUntil, isOff ? now : null, channel.id],
      );
      if (isOff) await this.dropWaiting(em, channel.id);
    });
    channel.failures += 1;
    channel.failingSince ??= now;
  }

  /** Records that there is nobody to deliver to. */
  async skip(deliveries: readonly DueDelivery[], reason: string, now: Date): Promise<void> {
    await this.finish(this.orm.em.fork(), deliveries, 'skipped', { at: now.toISOString(), ms: 0, error: reason });
  }

  private async retry(em: EntityManager, { id }: DueDelivery, attempt: Attempt, nextAt: Date): Promise<void> {
    await em.execute(
      `update platform.notification_deliveries
       set attempts = attempts + 1, next_at = ?, history = history || ?::jsonb where id = ? returning id`,
      [nextAt, JSON.stringify([attempt]), id],
    );
  }

  private async finish(
    em: EntityManager,
    deliveries: readonly DueDelivery[],
    status: 'delivered' | 'failed' | 'skipped',
    attempt: Attempt,
  ): Promise<void> {
    await em.execute(
      `update platform.notification_deliveries
       set status = ?, attempts = attempts + 1, history = history || ?::jsonb
       where id = any (?::bigint[]) and status = 'pending' returning id`,
      [status, JSON.stringify([attempt]), sqlArray(deliveries.map(({ id }) => id))],
    );
  }

  private async dropWaiting(em: EntityManager, channelId: number): Promise<void> {
    await em.execute(
      `update platform.notification_deliveries set status = 'failed'
       where channel_id = ? and status = 'pending' returning id`,
      [channelId],
    );
  }

  /** Deletes events, and with them their deliveries, in steps. */
  async removeOlderThan(time: Date, most: number): Promise<number> {
    const rows = await this.rows(
      `delete from platform.notification_events where id in (
         select id from platform.notification_events where created_at < ? order by created_at limit ?
       ) returning id`,
      [time, most],
    );
    return rows.length;
  }

  /** Deletes the oldest events of projects that have more than `kept` of these types, unless they wait. */
  async trim(types: readonly EventType[], kept: number): Promise<void> {
    await this.rows(
      `delete from platform.notification_events where id in (
         select id from (
           select e.id, row_number() over (partition by project_id order by created_at desc) as place
           from platform.notification_events e where type = any (?::text[])
         ) numbered
         where place > ?
       ) and not exists (
         select from platform.notification_deliveries d
         where d.event_id = notification_events.id and d.status = 'pending'
       ) returning id`,
      [sqlArray(types), kept],
    );
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
