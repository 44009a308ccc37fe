/**
 * Runs notifications: notices events, and delivers them, whenever something changed and every two seconds. Deletes
 * events after two weeks. Replicas of the API may do so at once.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { tenantReach } from '@slipway/installation';
import { type Outbound, outboundTo } from '@slipway/program/outbound.js';
import type { Logger } from 'pino';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { UNBOUNDED_EVENTS } from '../outbox/events.js';
import { Outbox } from '../outbox/outbox.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { clockOf } from '../settings/clock.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { BuildEvents } from './build-events.js';
import { ChannelsRepository } from './channels.repository.js';
import { DeliveriesRepository, type LeasedChannel } from './deliveries.repository.js';
import { Delivery } from './delivery.js';
import { ProjectEvents } from './project-events.js';
import { mailSender, type Recipient } from './senders/mail.js';
import { slackSender } from './senders/slack.js';
import { webhookSender } from './senders/webhook.js';
import { WebhookSecrets } from './webhook-secrets.js';

const EVERY_MS = 2_000;
/** A project in provisioning changes several times in this time, and its owner waits for it. */
const CHANGES_WAIT_MS = 200;
const SWEEP_MS = 300_000;
/** Events of a project whose number a stranger decides. */
const MOST_UNBOUNDED = 2_000;
/** Longer than `LOOK_BACK_MS` of builds, whose keys must not be forgotten earlier. */
const KEPT_MS = 14 * 24 * 3_600_000;
const DELETED_AT_ONCE = 5_000;

@Injectable()
export class Notifier implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly delivery: Delivery;
  private readonly outbound: Outbound;
  private readonly now: () => Date;
  private readonly timers: NodeJS.Timeout[] = [];
  private running: Promise<void> | undefined;
  private soon: NodeJS.Timeout | undefined;
  private again = false;
  private closed = false;

  constructor(
    private readonly projectEvents: ProjectEvents,
    private readonly buildEvents: BuildEvents,
    private readonly repository: DeliveriesRepository,
    private readonly channels: ChannelsRepository,
    private readonly outbox: Outbox,
    private readonly cache: ProjectCache,
    private readonly secrets: SecretsOfProjects,
    webhookSecrets: WebhookSecrets,
    mail: AccountMail,
    @Inject(SETTINGS) settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    const now = clockOf(settings);
    this.now = now;
    this.outbound = outboundOf(settings);
    const senders = {
      webhook: webhookSender(this.outbound, webhookSecrets),
      slack: slackSender(this.outbound, (channel) => this.slackUrlOf(channel)),
      mail: mailSender(mail, (channel) => this.recipientOf(channel)),
    };
    this.delivery = new Delivery({ repository, senders, now, log });
  }

  onApplicationBootstrap(): void {
    const look = () => void this.look();
    const lookSoon = () => {
      this.soon ??= setTimeout(look, CHANGES_WAIT_MS).unref();
    };
    this.projectEvents.start(lookSoon);
    this.buildEvents.start(lookSoon);
    this.outbox.onAdded(() => void this.delivery.begin());
    this.timers.push(
      setInterval(look, EVERY_MS),
      setInterval(() => void this.sweep(), SWEEP_MS),
    );
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    for (const timer of this.timers) clearInterval(timer);
    clearTimeout(this.soon);
    await this.buildEvents.stop();
    await this.running;
    await this.delivery.close();
    await this.outbound.close();
  }

  /** Resolves once all changes that were known at the call are recorded, and their deliveries have begun. */
  async look(): Promise<void> {
    if (this.closed) return;
    clearTimeout(this.soon);
    this.soon = undefined;
    this.again = true;
    this.running ??= this.lookAll().finally(() => {
      this.running = undefined;
    });
    await this.running;
  }

  private async lookAll(): Promise<void> {
    while (this.again && !this.closed) {
      this.again = false;
      await this.projectEvents.compare().catch(this.report('projects not compared for notifications; tried again'));
      await this.buildEvents.compare().catch(this.report('builds not compared for notifications; tried again'));
      await this.delivery.begin();
    }
  }

  private async sweep(): Promise<void> {
    const time = new Date(this.now().getTime() - KEPT_MS);
    try {
      await this.repository.trim(UNBOUNDED_EVENTS, MOST_UNBOUNDED);
      while (!this.closed && (await this.repository.removeOlderThan(time, DELETED_AT_ONCE)) === DELETED_AT_ONCE);
    } catch (error) {
      this.log.warn({ err: error }, 'old notifications not deleted; tried again in five minutes');
    }
  }

  private report = (message: string) => (error: unknown) => this.log.warn({ err: error }, message);

  private async slackUrlOf({ ref }: LeasedChannel): Promise<string | undefined> {
    const project = ref === null ? undefined : this.cache.get(ref);
    return project && this.secrets.slackWebhook(project);
  }

  private async recipientOf(channel: LeasedChannel): Promise<Recipient> {
    const project = channel.ref === null ? undefined : this.cache.get(channel.ref);
    if (channel.projectId !== null && project?.spec.notifications?.email !== true) {
      return { missing: 'email_notifications is false' };
    }
    return this.channels.recipientOf(channel);
  }
}

function outboundOf(settings: ApiSettings): Outbound {
  const { allows, reason } = tenantReach({ installation: settings, reach: settings.reach });
  return outboundTo(allows, reason);
}
