import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { LogsController } from './logs.controller.js';
import { LogsService } from './logs.service.js';

@Module({ imports: [ProjectsModule], controllers: [LogsController], providers: [LogsService] })
export class LogsModule {}
