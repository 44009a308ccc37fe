/** Schemas of the routes for webhooks and notifications of a project. */
import Type from 'typebox';
import { Id, Nullable, oneOf, Time } from '../http/schema.js';
import { PROJECT_EVENTS } from '../outbox/events.js';

const WEBHOOK_URL = Type.String({
  minLength: 1,
  maxLength: 2048,
  pattern: '^https?://[^\\s\\u0000-\\u001f\\u007f]+$',
  description:
    'The address that receives the events: `https://…`, or `http://…` to this machine. It must be public, or in ' +
    '`SLIPWAY_ALLOWED_NETWORKS`. Redirects are not followed.',
  examples: ['https://example.com/hooks/slipway'],
});

const Events = Type.Array(oneOf(PROJECT_EVENTS), {
  minItems: 1,
  maxItems: PROJECT_EVENTS.length,
  uniqueItems: true,
  description: 'The types of events that it receives.',
});

export const WebhookPath = Type.Object({
  id: Id('The id of the project.'),
  webhook_id: Id('The id of the webhook.'),
});
export type WebhookPath = Type.Static<typeof WebhookPath>;

export const NewWebhook = Type.Object(
  { url: WEBHOOK_URL, events: Events },
  { $id: 'NewWebhook', additionalProperties: false },
);
export type NewWebhook = Type.Static<typeof NewWebhook>;

const members = {
  id: Id('The id of the webhook.'),
  url: Type.String({ description: 'The address that receives the events.' }),
  events: Type.Array(oneOf(PROJECT_EVENTS), { description: 'The types of events that it receives.' }),
};

export const Webhook = Type.Object(
  {
    ...members,
    created_at: Time('When it was created.'),
    failing_since: Nullable(Time('The first of the failed attempts since the last success.')),
    last_error: Nullable(Type.String(), { description: 'The reason of the last failure; null after a success.' }),
    disabled_at: Nullable(
      Time(
        'When it was switched off, because it failed for five days or answered 410. ' +
          'POST /projects/{id}/notifications/test switches it on again.',
      ),
    ),
  },
  { $id: 'Webhook', additionalProperties: false },
);
export type Webhook = Type.Static<typeof Webhook>;

export const Webhooks = Type.Object(
  { items: Type.Array(Webhook, { description: 'The webhooks, oldest first.' }) },
  { $id: 'Webhooks', additionalProperties: false },
);
export type Webhooks = Type.Static<typeof Webhooks>;

const Secret = Type.String({
  description: 'The secret that signs the messages (Standard Webhooks). Shown only in this response.',
});

export const CreatedWebhook = Type.Object(
  { ...members, secret: Secret },
  { $id: 'CreatedWebhook', additionalProperties: false },
);
export type CreatedWebhook = Type.Static<typeof CreatedWebhook>;

export const RotatedWebhook = Type.Object(
  {
    id: members.id,
    secret: Secret,
    former_until: Time('Until then, messages are also signed by the former secret.'),
  },
  { $id: 'RotatedWebhook', additionalProperties: false },
);
export type RotatedWebhook = Type.Static<typeof RotatedWebhook>;

const CHANNELS = ['mail', 'slack', 'webhook'] as const;
const channel = oneOf(CHANNELS, { description: 'The kind of the channel.' });
const webhookId = Nullable(Type.Integer(), { description: 'The id of the webhook; null for mail and Slack.' });

export const SentTest = Type.Object(
  {
    event_id: Type.String({ description: 'The id of the test event, as in the deliveries.' }),
    channels: Type.Array(Type.Object({ channel, webhook_id: webhookId }, { additionalProperties: false }), {
      description: 'The channels that get it.',
    }),
  },
  { $id: 'SentTestNotification', additionalProperties: false },
);
export type SentTest = Type.Static<typeof SentTest>;

export const DeliveriesQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 50, description: 'The maximum number.' })),
    before: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,17}$', description: 'The id of a delivery; returns older ones.' }),
    ),
  },
  { $id: 'DeliveriesQuery', additionalProperties: false },
);
export type DeliveriesQuery = Type.Static<typeof DeliveriesQuery>;

const STATUSES = ['pending', 'delivered', 'failed', 'skipped'] as const;

const AttemptView = Type.Object(
  {
    at: Time('When it began.'),
    duration_ms: Type.Integer({ description: 'The milliseconds that it took.' }),
    status: Nullable(Type.Integer(), { description: 'The status of the response; null if there was none.' }),
    error: Nullable(Type.String(), { description: 'The reason of a failure.' }),
  },
  { $id: 'DeliveryAttempt', additionalProperties: false },
);

export const DeliveryView = Type.Object(
  {
    id: Type.String({ description: 'The id of the delivery.' }),
    event_id: Type.String({ description: 'The id of the event, which a webhook gets as `webhook-id`.' }),
    event: Type.String({ description: 'The type of the event.' }),
    occurred_at: Time('When the event happened.'),
    channel,
    webhook_id: webhookId,
    status: oneOf(STATUSES, {
      description: 'The state. `failed`: it is not tried again. `skipped`: there was nobody to deliver to.',
    }),
    next_attempt_at: Nullable(Time('When a pending delivery is tried next, at the earliest.')),
    attempts: Type.Array(AttemptView, { description: 'The attempts, oldest first.' }),
  },
  { $id: 'NotificationDelivery', additionalProperties: false },
);
export type DeliveryView = Type.Static<typeof DeliveryView>;

export const Deliveries = Type.Object(
  { items: Type.Array(DeliveryView, { description: 'The deliveries, newest first.' }) },
  { $id: 'NotificationDeliveries', additionalProperties: false },
);
export type Deliveries = Type.Static<typeof Deliveries>;
