/**
 * The outbox of notifications. In: events, in the transaction of the change that they report, or under a unique key.
 * Out: a row for the event and one for each channel that receives it, which `notifications/delivery.ts` delivers. So an
 * event is neither lost nor sent twice, whenever the program ends.
 */
import { randomUUID } from 'node:crypto';
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import { clockOf } from '../settings/clock.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { type NewEvent, TEST_EVENT, type WantedChannels } from './events.js';
import { sqlArray } from './sql-values.js';

/** Deliveries that wait on one channel. Further events are not delivered on it. */
export const MOST_WAITING = 10_000;

@Injectable()
export class Outbox {
  private readonly listeners = new Set<() => void>();
  private readonly now: () => Date;

  constructor(
    private readonly orm: MikroORM,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {
    this.now = clockOf(settings);
  }

  /** Calls `listener` after deliveries were added by this process. */
  onAdded(listener: () => void): void {
    this.listeners.add(listener);
  }

  /** Call it after the transaction of `addForProject` or `addForAccount` is committed. */
  announce(): void {
    for (const listener of this.listeners) listener();
  }

  /** Adds an event of a project for its webhooks, and for the other wanted channels. Returns false for a known key. */
  async addForProject(em: EntityManager, projectId: number, wanted: WantedChannels, event: NewEvent): Promise<boolean> {
    await this.ensureChannels(em, projectId, wanted);
    const receives = "case c.kind when 'mail' then ? when 'slack' then ? else ? = any (c.events) or ? end";
    const isTest = event.type === TEST_EVENT;
    return this.add(em, event, { project_id: projectId }, `c.project_id = ? and ${receives}`, [
      projectId,
      wanted.mail,
      wanted.slack,
      event.type,
      isTest,
    ]);
  }

  /** Adds an event of an account, which is mailed to it. Without an SMTP server, nothing is added. */
  async addForAccount(em: EntityManager, userId: number, event: NewEvent): Promise<boolean> {
    if (!this.settings.mail) return false;
    await em.execute(
      `insert into platform.notification_channels (user_id, kind) select ?::integer, 'mail'
       where not exists (select from platform.notification_channels where user_id = ?::integer)
       on conflict (user_id) where user_id is not null do nothing returning id`,
      [userId, userId],
    );
    return this.add(em, event, { user_id: userId }, 'c.user_id = ?', [userId]);
  }

  /** Removes the receivers that the former owner of a project chose, with what waits for them. */
  async removeReceivers(projectId: number): Promise<void> {
    const sql = "delete from platform.notification_channels where project_id = ? and kind <> 'mail' returning id";
    await this.orm.em.fork().execute(sql, [projectId]);
  }

  private async ensureChannels(em: EntityManager, projectId: number, { mail, slack }: WantedChannels): Promise<void> {
    const kinds = [mail && 'mail', slack && 'slack'].filter((kind) => kind !== false);
    if (kinds.length === 0) return;
    await em.execute(
      `insert into platform.notification_channels (project_id, kind)
       select ?::integer, kind from unnest(?::text[]) as kind
       where not exists (
         select from platform.notification_channels c where c.project_id = ?::integer and c.kind = kind.kind
       )
       on conflict (project_id, kind) where kind <> 'webhook' and project_id is not null do nothing returning id`,
      [projectId, sqlArray(kinds), projectId],
    );
  }

  private async add(
    em: EntityManager,
    { key, type, at, data, isOnlyForChannels = false }: NewEvent,
    of: { project_id?: number; user_id?: number },
    which: string,
    values: unknown[],
  ): Promise<boolean> {
    const now = this.now();
    const rows = (await em.execute(
      `with receiving as (
         select c.id from platform.notification_channels c
         where c.disabled_at is null and ${which} and (
           select count(*) from platform.notification_deliveries d where d.channel_id = c.id and d.status = 'pending'
         ) < ?
       ), event as (
         insert into platform.notification_events
           (id, key, project_id, user_id, type, data, occurred_at, created_at)
         select ?::uuid, ?, ?::integer, ?::integer, ?, ?::json, ?::timestamptz, ?::timestamptz
         where not ?::boolean or exists (select from receiving)
         on conflict (key) do nothing returning id
       ), delivery as (
         insert into platform.notification_deliveries (event_id, channel_id, next_at)
         select event.id, receiving.id, ?::timestamptz from event, receiving
         returning id
       )
       select id, (select count(*) from delivery) from event`,
      [
        ...[...values, MOST_WAITING],
        ...[randomUUID(), key, of.project_id ?? null, of.user_id ?? null, type, JSON.stringify(data), at, now],
        ...[isOnlyForChannels, now],
      ],
    )) as unknown[];
    return rows.length > 0;
  }
}
