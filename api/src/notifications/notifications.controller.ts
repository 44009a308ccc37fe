/** Routes for the webhooks of a project, test notifications, and deliveries. */
import { Body, Controller, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { WEBHOOKS_PER_PROJECT } from './channels.repository.js';
import {
  CreatedWebhook,
  Deliveries,
  DeliveriesQuery,
  NewWebhook,
  RotatedWebhook,
  SentTest,
  type Webhook,
  WebhookPath,
  Webhooks,
} from './notifications.schema.js';
import { NotificationsService } from './notifications.service.js';

const SECRET = 'whsec_Yk3vT0q9bW1mZ2Jr8xK5uD7sHc4nQeLpAf6yGtJiOVM=';
const TIME = '2026-01-05T10:00:00.000Z';
const EXAMPLE: Webhook = {
  id: 3,
  url: 'https://example.com/hooks/slipway',
  events: ['deploy.failed', 'project.failing', 'project.recovered'],
  created_at: TIME,
  failing_since: null,
  last_error: null,
  disabled_at: null,
};
const CREATED: CreatedWebhook = { id: EXAMPLE.id, url: EXAMPLE.url, events: EXAMPLE.events, secret: SECRET };
const EVENT_ID = '0b3b0f0e-6a1c-4d7b-9a35-2f1f3f3c9d10';
const NO_WEBHOOK = { 404: 'There is no such project, it is not yours, or it has no such webhook.' };

@ApiTags('notifications')
@Controller()
export class NotificationsController {
  constructor(private readonly notifications: NotificationsService) {}

  @Route('POST', '/projects/{id}/webhooks', {
    summary: 'Create a webhook',
    description:
      'Each event is sent as a POST with the body `{type, timestamp, data}`, signed as ' +
      '[Standard Webhooks](https://www.standardwebhooks.com) specify. A message that is not answered by a status of ' +
      '200 to 299 within 15 s is sent again, for up to 28 hours, with the same `webhook-id`.',
    access: 'notifications:write',
    cost: 10,
    params: ProjectId,
    body: NewWebhook,
    bodyExamples: { deploys: { url: EXAMPLE.url, events: EXAMPLE.events } },
    answer: { status: 201, description: 'The webhook.', schema: CreatedWebhook, example: CREATED },
    problems: {
      ...NO_PROJECT,
      403: { kind: 'project_limit', text: `The project has ${WEBHOOKS_PER_PROJECT} webhooks.` },
    },
  })
  createWebhook(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() body: NewWebhook,
  ): Promise<CreatedWebhook> {
    return this.notifications.createWebhook(caller, id, body);
  }

  @Route('GET', '/projects/{id}/webhooks', {
    summary: 'List webhooks',
    access: 'notifications:read',
    params: ProjectId,
    answer: { status: 200, description: 'The webhooks.', schema: Webhooks, example: { items: [EXAMPLE] } },
    problems: NO_PROJECT,
  })
  listWebhooks(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Webhooks> {
    return this.notifications.listWebhooks(caller, id);
  }

  @Route('DELETE', '/projects/{id}/webhooks/{webhook_id}', {
    summary: 'Delete a webhook',
    description: 'Its pending deliveries are deleted too.',
    access: 'notifications:write',
    params: WebhookPath,
    answer: { status: 204, description: 'The webhook is deleted.' },
    problems: NO_WEBHOOK,
  })
  deleteWebhook(@Caller() caller: Principal, @Param() path: WebhookPath): Promise<void> {
    return this.notifications.removeWebhook(caller, path);
  }

  @Route('POST', '/projects/{id}/webhooks/{webhook_id}/rotate', {
    summary: 'Replace the secret of a webhook',
    description: 'For 24 hours, messages have a signature by the former secret too.',
    access: 'notifications:write',
    cost: 5,
    params: WebhookPath,
    answer: {
      status: 200,
      description: 'The new secret.',
      schema: RotatedWebhook,
      example: { id: EXAMPLE.id, secret: SECRET, former_until: '2026-01-06T10:00:00.000Z' },
    },
    problems: NO_WEBHOOK,
  })
  rotateWebhook(@Caller() caller: Principal, @Param() path: WebhookPath): Promise<RotatedWebhook> {
    return this.notifications.rotateWebhook(caller, path);
  }

  @Route('POST', '/projects/{id}/notifications/test', {
    summary: 'Send a test notification',
    description:
      'Sends the event `notification.test` to all channels of the project, and switches those on again that were ' +
      'switched off. Responds at once; /projects/{id}/notifications/deliveries shows the outcome.',
    access: 'notifications:write',
    cost: 20,
    params: ProjectId,
    answer: {
      status: 202,
      description: 'The test is being sent.',
      schema: SentTest,
      example: { event_id: EVENT_ID, channels: [{ channel: 'webhook', webhook_id: EXAMPLE.id }] },
    },
    problems: NO_PROJECT,
  })
  testNotifications(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<SentTest> {
    return this.notifications.sendTest(caller, id);
  }

  @Route('GET', '/projects/{id}/notifications/deliveries', {
    summary: 'List deliveries of notifications',
    description: 'Deliveries of the last two weeks.',
    access: 'notifications:read',
    cost: 2,
    params: ProjectId,
    query: DeliveriesQuery,
    answer: {
      status: 200,
      description: 'The deliveries.',
      schema: Deliveries,
      example: {
        items: [
          {
            id: '17',
            event_id: EVENT_ID,
            event: 'deploy.failed',
            occurred_at: TIME,
            channel: 'webhook',
            webhook_id: EXAMPLE.id,
            status: 'delivered',
            next_attempt_at: null,
            attempts: [{ at: TIME, duration_ms: 84, status: 204, error: null }],
          },
        ],
      },
    },
    problems: NO_PROJECT,
  })
  listDeliveries(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Query() query: DeliveriesQuery,
  ): Promise<Deliveries> {
    return this.notifications.listDeliveries(caller, id, query);
  }
}
