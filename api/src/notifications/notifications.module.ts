import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { BuildEvents } from './build-events.js';
import { ChannelsRepository } from './channels.repository.js';
import { DeliveriesRepository } from './deliveries.repository.js';
import { HealthRepository } from './health.repository.js';
import { NotificationsController } from './notifications.controller.js';
import { NotificationsService } from './notifications.service.js';
import { Notifier } from './notifier.js';
import { ProjectEvents } from './project-events.js';
import { WebhookSecretUpkeep } from './webhook-secret-upkeep.js';
import { WebhookSecrets } from './webhook-secrets.js';

@Module({
  imports: [ProjectsModule],
  controllers: [NotificationsController],
  providers: [
    BuildEvents,
    ChannelsRepository,
    DeliveriesRepository,
    HealthRepository,
    NotificationsService,
    Notifier,
    ProjectEvents,
    WebhookSecretUpkeep,
    WebhookSecrets,
  ],
})
export class NotificationsModule {}
