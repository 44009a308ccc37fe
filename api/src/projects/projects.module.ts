import { Module } from '@nestjs/common';
import { ProjectIds } from './project-ids.js';
import { SecretsOfProjects } from './project-secrets.js';
import { ProjectsController } from './projects.controller.js';
import { ProjectsRepository } from './projects.repository.js';
import { ProjectsService } from './projects.service.js';

@Module({
  controllers: [ProjectsController],
  providers: [ProjectsService, ProjectsRepository, ProjectIds, SecretsOfProjects],
  exports: [ProjectsService, SecretsOfProjects],
})
export class ProjectsModule {}
