import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { AuthConfigController } from './auth-config.controller.js';
import { AuthConfigService } from './auth-config.service.js';

@Module({ imports: [ProjectsModule], controllers: [AuthConfigController], providers: [AuthConfigService] })
export class ConfigModule {}
