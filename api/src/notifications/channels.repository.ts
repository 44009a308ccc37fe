/** Channels of projects, their webhooks, and what was delivered on them. */
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import type { ProjectEvent } from '../outbox/events.js';
import { sqlArray } from '../outbox/sql-values.js';
import type { Attempt, ChannelKind, LeasedChannel } from './deliveries.repository.js';
import type { Recipient } from './senders/mail.js';

export const WEBHOOKS_PER_PROJECT = 20;

/** Times are texts, as PostgreSQL writes them. */
export interface WebhookRow {
  id: number;
  url: string;
  events: ProjectEvent[];
  createdAt: string;
  failingSince: string | null;
  disabledAt: string | null;
  lastError: string | null;
}

export interface DeliveryRow {
  id: string;
  eventId: string;
  type: string;
  occurredAt: string;
  kind: ChannelKind;
  channelId: number;
  status: 'pending' | 'delivered' | 'failed' | 'skipped';
  nextAt: string;
  history: Attempt[];
}

const WEBHOOK = `id, url, events, created_at as "createdAt", failing_since as "failingSince",
  disabled_at as "disabledAt", last_error as "lastError"`;

@Injectable()
export class ChannelsRepository {
  constructor(private readonly orm: MikroORM) {}

  /**
   * Locks the project's row, so that concurrent requests keep the limit. Refuses an account that no longer owns the
   * project: the transfer may have removed the former owner's webhooks already.
   */
  async addWebhook(
    { projectId, ownerId }: { projectId: number; ownerId: number },
    { url, events, secret }: { url: string; events: readonly ProjectEvent[]; secret: string },
  ): Promise<WebhookRow> {
    return this.orm.em.fork().transactional(async (em) => {
      const own = 'select id from platform.projects where id = ? and owner_id = ? for update';
      const [locked] = await this.run(em, own, [projectId, ownerId]);
      if (!locked) throw new Problem('not_found', 'There is no such project.');
      const sql = `select count(*)::integer as count from platform.notification_channels
         where project_id = ? and kind = 'webhook'`;
      const [{ count }] = (await this.run(em, sql, [projectId])) as [{ count: number }];
      if (count >= WEBHOOKS_PER_PROJECT) {
        throw new Problem('project_limit', `A project has at most ${WEBHOOKS_PER_PROJECT} webhooks. Delete one.`);
      }
      const [row] = await this.run<WebhookRow>(
        em,
        `insert into platform.notification_channels (project_id, kind, url, events, secret)
         values (?, 'webhook', ?, ?::text[], ?) returning ${WEBHOOK}`,
        [projectId, url, sqlArray(events), secret],
      );
      return row as WebhookRow;
    });
  }

  webhooks(projectId: number): Promise<WebhookRow[]> {
    const sql = `select ${WEBHOOK} from platform.notification_channels
       where project_id = ? and kind = 'webhook' order by id`;
    return this.rows(sql, [projectId]);
  }

  async removeWebhook(projectId: number, id: number): Promise<boolean> {
    const sql = `delete from platform.notification_channels
       where project_id = ? and id = ? and kind = 'webhook' returning id`;
    return (await this.rows(sql, [projectId, id])).length > 0;
  }

  /** The former secret signs too until `until`. Returns false if there is no such webhook. */
  async replaceSecret(projectId: number, id: number, secret: string, until: Date): Promise<boolean> {
    const sql = `update platform.notification_channels
       set former_secret = secret, former_until = ?, secret = ?
       where project_id = ? and id = ? and kind = 'webhook' returning id`;
    return (await this.rows(sql, [until, secret, projectId, id])).length > 0;
  }

  /** Switches all channels of a project on again. They have five days anew. */
  async enableAll(em: EntityManager, projectId: number, now: Date): Promise<void> {
    await this.run(
      em,
      `update platform.notification_channels set disabled_at = null, paused_until = null,
         failing_since = case when failing_since is null then null else ?::timestamptz end
       where project_id = ? returning id`,
      [now, projectId],
    );
  }

  /** Returns the id of an event, and the channels that get it. */
  async channelsOf(em: EntityManager, key: string) {
    const [event] = await this.run<{ id: string }>(em, 'select id from platform.notification_events where key = ?', [
      key,
    ]);
    const eventId = (event as { id: string }).id;
    const channels = await this.run<{ kind: ChannelKind; id: number }>(
      em,
      `select c.kind, c.id from platform.notification_deliveries d
         join platform.notification_channels c on c.id = d.channel_id where d.event_id = ? order by c.id`,
      [eventId],
    );
    return { eventId, channels };
  }

  /** Newest first. `before`: the id of a delivery. */
  deliveries(projectId: number, { before, limit }: { before: string | undefined; limit: number }) {
    return this.rows<DeliveryRow>(
      `select d.id, d.event_id as "eventId", e.type, e.occurred_at as "occurredAt", c.kind, c.id as "channelId",
         d.status, d.next_at as "nextAt", d.history
       from platform.notification_channels c join platform.notification_deliveries d on d.channel_id = c.id
         join platform.notification_events e on e.id = d.event_id
       where c.project_id = ? and (?::bigint is null or d.id < ?::bigint) order by d.id desc limit ?`,
      [projectId, before ?? null, before ?? null, limit],
    );
  }

  /** Returns the address of the account; that of a project's owner only if it is verified. */
  async recipientOf({ projectId, ownerId }: LeasedChannel): Promise<Recipient> {
    if (ownerId === null) return { missing: 'no account owns the project' };
    const sql = 'select email, email_verified_at as verified, disabled_at as disabled from platform.users where id = ?';
    const [account] = await this.rows<{ email: string; verified: string | null; disabled: string | null }>(sql, [
      ownerId,
    ]);
    if (!account || account.disabled) return { missing: 'the account is disabled' };
    if (projectId !== null && account.verified === null) return { missing: 'the address of the owner is not verified' };
    return { address: account.email };
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.run(this.orm.em.fork(), sql, values);
  }

  private run<T>(em: EntityManager, sql: string, values: unknown[]): Promise<T[]> {
    return em.execute(sql, values) as unknown as Promise<T[]>;
  }
}
