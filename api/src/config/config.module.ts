import { Module } from '@nestjs/common';
import { AuthAdminModule } from '../auth-admin/auth-admin.module.js';
import { ProjectsModule } from '../projects/projects.module.js';
import { QueryModule } from '../query/query.module.js';
import { AuthConfigService } from './auth-config.service.js';
import { ConfigController } from './config.controller.js';
import { RestConfigService } from './rest-config.service.js';
import { TestMailService } from './test-mail.service.js';

@Module({
  imports: [ProjectsModule, QueryModule, AuthAdminModule],
  controllers: [ConfigController],
  providers: [AuthConfigService, RestConfigService, TestMailService],
})
export class ConfigModule {}
