import { type MiddlewareConsumer, Module, type NestModule, RequestMethod } from '@nestjs/common';
import { AuthAdminModule } from '../auth-admin/auth-admin.module.js';
import { ProjectsModule } from '../projects/projects.module.js';
import { QueryModule } from '../query/query.module.js';
import { AuthUsers } from './auth-users.js';
import { McpController } from './mcp.controller.js';
import { McpService } from './mcp.service.js';
import { McpKeys } from './mcp-keys.js';
import { refuseEventStreams } from './refuse-event-streams.js';
import { McpTools } from './tools.js';

@Module({
  imports: [ProjectsModule, QueryModule, AuthAdminModule],
  controllers: [McpController],
  providers: [McpService, McpKeys, McpTools, AuthUsers],
})
export class McpModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(refuseEventStreams).forRoutes({ path: 'projects/:id/mcp', method: RequestMethod.GET });
  }
}
