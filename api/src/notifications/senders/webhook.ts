/** Delivers an event to a webhook, as Standard Webhooks specify: one message for each event. */
import { webhookHeaders } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import type { DueDelivery, LeasedChannel } from '../deliveries.repository.js';
import type { WebhookSecrets } from '../webhook-secrets.js';
import { post } from './post.js';
import type { Sender } from './sender.js';

const GONE = [410];

export function webhookSender(outbound: Outbound, secrets: WebhookSecrets): Sender {
  return {
    most: 1,
    pauseMs: () => 0,
    async send(channel, deliveries, now) {
      const body = bodyOf(deliveries[0] as DueDelivery);
      const message = { id: (deliveries[0] as DueDelivery).eventId, at: now, body };
      const headers = webhookHeaders(message, secretsOf(channel, secrets, now));
      return post(outbound, { url: channel.url as string, headers, body, gone: GONE });
    },
  };
}

/** The signature covers the bytes, and each attempt sends the same ones. */
export const bodyOf = ({ type, occurredAt, data }: Pick<DueDelivery, 'type' | 'occurredAt' | 'data'>): string =>
  JSON.stringify({ type, timestamp: occurredAt.toISOString(), data });

function secretsOf(channel: LeasedChannel, secrets: WebhookSecrets, now: Date): Buffer[] {
  const { projectId, secret, formerSecret, formerUntil } = channel;
  const isFormerValid = formerSecret !== null && formerUntil !== null && formerUntil > now;
  const sealed = [secret as string, ...(isFormerValid ? [formerSecret] : [])];
  return sealed.map((each) => secrets.open(projectId as number, each));
}
