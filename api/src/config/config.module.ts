import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { QueryModule } from '../query/query.module.js';
import { AuthConfigService } from './auth-config.service.js';
import { ConfigController } from './config.controller.js';
import { RestConfigService } from './rest-config.service.js';

@Module({
  imports: [ProjectsModule, QueryModule],
  controllers: [ConfigController],
  providers: [AuthConfigService, RestConfigService],
})
export class ConfigModule {}
