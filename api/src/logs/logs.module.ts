import { Module } from '@nestjs/common';
import { FunctionsModule } from '../functions/functions.module.js';
import { LiveModule } from '../live/live.module.js';
import { ProjectsModule } from '../projects/projects.module.js';
import { GatewayLogs } from './gateway-logs.js';
import { LogsController } from './logs.controller.js';
import { LogsService } from './logs.service.js';
import { PartialReads } from './partial-reads.js';
import { ClusterLogs } from './pods/cluster-logs.js';
import { PodLogs } from './pods/pod-logs.js';

@Module({
  imports: [ProjectsModule, FunctionsModule, LiveModule],
  controllers: [LogsController],
  providers: [LogsService, GatewayLogs, ClusterLogs, PodLogs, PartialReads],
})
export class LogsModule {}
