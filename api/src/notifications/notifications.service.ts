/** Webhooks and notifications of a project, for its owner. */
import { randomUUID } from 'node:crypto';
import { MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import type { Principal } from '../callers/principal.js';
import { invalid, missing } from '../http/problem.js';
import { TEST_EVENT } from '../outbox/events.js';
import { Outbox } from '../outbox/outbox.js';
import { sqlTime } from '../outbox/sql-values.js';
import { wantedChannels } from '../outbox/wanted-channels.js';
import { nameOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { clockOf } from '../settings/clock.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { ChannelsRepository, type DeliveryRow, type WebhookRow } from './channels.repository.js';
import type {
  CreatedWebhook,
  Deliveries,
  DeliveriesQuery,
  DeliveryView,
  NewWebhook,
  RotatedWebhook,
  SentTest,
  Webhook,
  WebhookPath,
  Webhooks,
} from './notifications.schema.js';
import { WebhookSecrets } from './webhook-secrets.js';

/** The former secret of a webhook signs too for this long, so that the receiver can change it without a gap. */
const FORMER_MS = 24 * 3_600_000;
const USUAL_DELIVERIES = 50;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

@Injectable()
export class NotificationsService {
  private readonly now: () => Date;

  constructor(
    private readonly projects: ProjectsService,
    private readonly channels: ChannelsRepository,
    private readonly secrets: WebhookSecrets,
    private readonly outbox: Outbox,
    private readonly orm: MikroORM,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {
    this.now = clockOf(settings);
  }

  async createWebhook(caller: Principal, id: number, { url, events }: NewWebhook): Promise<CreatedWebhook> {
    await this.projects.find(caller, id);
    refuseUrl(url);
    const { shown, sealed } = this.secrets.make(id);
    const row = await this.channels.addWebhook(
      { projectId: id, ownerId: caller.user.id },
      { url, events, secret: sealed },
    );
    return { id: row.id, url: row.url, events: row.events, secret: shown };
  }

  async listWebhooks(caller: Principal, id: number): Promise<Webhooks> {
    await this.projects.find(caller, id);
    return { items: (await this.channels.webhooks(id)).map(webhookView) };
  }

  async removeWebhook(caller: Principal, { id, webhook_id }: WebhookPath): Promise<void> {
    await this.projects.find(caller, id);
    if (!(await this.channels.removeWebhook(id, webhook_id))) throw missing('webhook');
  }

  async rotateWebhook(caller: Principal, { id, webhook_id }: WebhookPath): Promise<RotatedWebhook> {
    await this.projects.find(caller, id);
    const { shown, sealed } = this.secrets.make(id);
    const until = new Date(this.now().getTime() + FORMER_MS);
    if (!(await this.channels.replaceSecret(id, webhook_id, sealed, until))) throw missing('webhook');
    return { id: webhook_id, secret: shown, former_until: until.toISOString() };
  }

  /** Switches the channels on again, because the owner says that they work. */
  async sendTest(caller: Principal, id: number): Promise<SentTest> {
    const { project } = await this.projects.find(caller, id);
    const key = `test/${randomUUID()}`;
    const data = { project: { id, ref: project.metadata.name, name: nameOf(project) } };
    const event = { key, type: TEST_EVENT, at: this.now(), data } as const;
    const sent = await this.orm.em.fork().transactional(async (em) => {
      await this.channels.enableAll(em, id, this.now());
      await this.outbox.addForProject(em, id, wantedChannels(project, this.settings), event);
      return this.channels.channelsOf(em, key);
    });
    this.outbox.announce();
    return { event_id: sent.eventId, channels: sent.channels.map(({ kind, id: channel }) => viewOf(kind, channel)) };
  }

  async listDeliveries(caller: Principal, id: number, query: DeliveriesQuery): Promise<Deliveries> {
    await this.projects.find(caller, id);
    const { before, limit = USUAL_DELIVERIES } = query;
    return { items: (await this.channels.deliveries(id, { before, limit })).map(deliveryView) };
  }
}

function refuseUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw invalid('url', 'must be a URL, such as https://example.com/hooks/slipway');
  const isPlain = url.protocol === 'http:' && LOOPBACK.has(url.hostname);
  if (url.protocol !== 'https:' && !isPlain) throw invalid('url', 'must be https://…, or http://… to this machine');
  if (url.username || url.password) throw invalid('url', 'must not have a user name or a password');
  if (url.hash) throw invalid('url', 'must not have a fragment');
}

const iso = (time: string) => sqlTime(time).toISOString();
const isoOrNull = (time: string | null) => (time === null ? null : iso(time));

const webhookView = ({ id, url, events, createdAt, failingSince, lastError, disabledAt }: WebhookRow): Webhook => ({
  id,
  url,
  events,
  created_at: iso(createdAt),
  failing_since: isoOrNull(failingSince),
  last_error: lastError,
  disabled_at: isoOrNull(disabledAt),
});

const viewOf = (kind: DeliveryRow['kind'], id: number) => ({
  channel: kind,
  webhook_id: kind === 'webhook' ? id : null,
});

const deliveryView = (row: DeliveryRow): DeliveryView => ({
  id: row.id,
  event_id: row.eventId,
  event: row.type,
  occurred_at: iso(row.occurredAt),
  ...viewOf(row.kind, row.channelId),
  status: row.status,
  next_attempt_at: row.status === 'pending' ? iso(row.nextAt) : null,
  attempts: row.history.map(({ at, ms, status, error }) => ({
    at,
    duration_ms: ms,
    status: status ?? null,
    error: error ?? null,
  })),
});
