/**
 * Delivers what waits in the outbox: a few channels at once, and on each channel one message after another. In: leased
 * channels. Out: messages, and their outcomes in the outbox.
 */
import { ConcurrencyLimit } from '@slipway/program';
import type { Logger } from 'pino';
import type { ChannelKind, DeliveriesRepository, LeasedChannel } from './deliveries.repository.js';
import type { Sender } from './senders/sender.js';

/** Channels that are served at once, of all accounts and of one. */
const AT_ONCE = { ofAll: 16, ofAccount: 2 };
/** No account has this id: there is room for it as long as there is any. */
const NO_ACCOUNT = '0';
/** Milliseconds on one channel, after which others are served, so that slow receivers delay others by one message. */
const MOST_IN_A_ROW_MS = 2_000;

export interface DeliveryDeps {
  repository: DeliveriesRepository;
  senders: Readonly<Record<ChannelKind, Sender>>;
  now: () => Date;
  log: Logger;
}

export class Delivery {
  private readonly limit = new ConcurrencyLimit({ most: AT_ONCE.ofAll, ofOne: AT_ONCE.ofAccount });
  /** The accounts of the channels that are being served. */
  private readonly active = new Map<Promise<void>, string>();
  private filling: Promise<void> | undefined;
  private again = false;
  private closed = false;

  constructor(private readonly deps: DeliveryDeps) {}

  /** Begins to serve channels with due deliveries. Resolves once no further one is to be begun now. */
  async begin(): Promise<void> {
    this.again = true;
    this.filling ??= this.fill().finally(() => {
      this.filling = undefined;
    });
    await this.filling;
  }

  /** Begins no further message, and waits for those that are being sent. */
  async close(): Promise<void> {
    this.closed = true;
    await this.filling;
    await Promise.all(this.active.keys());
  }

  private async fill(): Promise<void> {
    while (this.again && !this.closed) {
      this.again = false;
      try {
        while (!this.limit.isFull(NO_ACCOUNT) && !this.closed && (await this.beginOne()));
      } catch (error) {
        this.deps.log.warn({ err: error }, 'notifications not delivered; tried again');
      }
    }
  }

  private async beginOne(): Promise<boolean> {
    const channel = await this.deps.repository.lease(this.deps.now(), this.busyAccounts());
    if (!channel) return false;
    const owner = String(channel.ownerId ?? NO_ACCOUNT);
    const served = this.limit
      .run(owner, () => this.serve(channel))
      .catch((error: unknown) => {
        this.deps.log.warn({ err: error, channel: channel.id }, 'channel not served; tried again');
      })
      .finally(() => {
        this.active.delete(served);
        void this.begin();
      });
    this.active.set(served, owner);
    return true;
  }

  private busyAccounts(): number[] {
    const full = [...new Set(this.active.values())].filter((owner) => this.limit.isFull(owner));
    return full.map(Number);
  }

  /** After an unexpected error, the lease stays until it expires, so that the error is not repeated at once. */
  private async serve(channel: LeasedChannel): Promise<void> {
    const { repository, now } = this.deps;
    const begun = performance.now();
    while (performance.now() - begun < MOST_IN_A_ROW_MS && !this.closed && (await this.sendNext(channel)));
    await repository.release(channel, now());
  }

  /** Returns false if nothing is due. */
  private async sendNext(channel: LeasedChannel): Promise<boolean> {
    const { repository, senders, now } = this.deps;
    const sender = senders[channel.kind];
    const deliveries = await repository.due(channel, now(), sender.most);
    if (deliveries.length === 0) return false;
    const at = now();
    const begun = performance.now();
    const sent = await sender.send(channel, deliveries, at);
    const attempt = { at: at.toISOString(), ms: Math.round(performance.now() - begun) };
    if (sent.kind === 'delivered') {
      const { status } = sent;
      const success = { ...attempt, ...(status === undefined ? {} : { status }) };
      await repository.delivered(channel, deliveries, success, { now: now(), pauseMs: sender.pauseMs(channel) });
    } else if (sent.kind === 'failed') {
      const { failure } = sent;
      const { status, error } = failure;
      const missed = { ...attempt, ...(status === undefined ? {} : { status }), error };
      await repository.failed(channel, deliveries, { attempt: missed, failure, now: now() });
    } else await repository.skip(deliveries, sent.reason, now());
    return true;
  }
}
