import { Module } from '@nestjs/common';
import { LiveModule } from '../live/live.module.js';
import { ProjectsModule } from '../projects/projects.module.js';
import { AppOutputs } from './app-outputs.js';
import { AppsController } from './apps.controller.js';
import { AppsService } from './apps.service.js';
import { BuildOutputs } from './build-outputs.js';
import { BuildQueue } from './build-queue.js';
import { BuildResources } from './build-resources.js';
import { BuildTickets } from './build-tickets.js';
import { BuildsController } from './builds.controller.js';
import { BuildsService } from './builds.service.js';
import { DeliveredDeploys } from './delivered-deploys.js';
import { Deliveries } from './deliveries.js';
import { DeliveryBodies } from './delivery-body.js';
import { DeliveryQueue } from './delivery-queue.js';
import { DeploysController } from './deploys.controller.js';
import { DeploysService } from './deploys.service.js';
import { LogFollowers } from './log-followers.js';
import { PreviewsService } from './previews.service.js';
import { WebhookSecrets } from './webhook-secrets.js';

@Module({
  imports: [LiveModule, ProjectsModule],
  controllers: [DeploysController, AppsController, BuildsController],
  providers: [
    AppOutputs,
    AppsService,
    DeliveredDeploys,
    LogFollowers,
    DeploysService,
    BuildsService,
    BuildOutputs,
    BuildQueue,
    BuildResources,
    BuildTickets,
    Deliveries,
    DeliveryBodies,
    DeliveryQueue,
    PreviewsService,
    WebhookSecrets,
  ],
})
export class DeploysModule {}
