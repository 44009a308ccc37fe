import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { FunctionCache } from './function-cache.js';
import { FunctionDeploys } from './function-deploys.js';
import { FunctionLogs } from './function-logs.js';
import { FunctionResources } from './function-resources.js';
import { FunctionsController } from './functions.controller.js';
import { FunctionsRepository } from './functions.repository.js';
import { FunctionsService } from './functions.service.js';

@Module({
  imports: [ProjectsModule],
  controllers: [FunctionsController],
  providers: [FunctionsService, FunctionCache, FunctionDeploys, FunctionResources, FunctionsRepository, FunctionLogs],
  exports: [FunctionLogs],
})
export class FunctionsModule {}
