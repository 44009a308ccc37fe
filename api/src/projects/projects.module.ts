import { Module } from '@nestjs/common';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { AssignmentsController } from './assignments.controller.js';
import { GitTokenUpkeep } from './git-token-upkeep.js';
import { MachinesController } from './machines.controller.js';
import { MachinesService } from './machines.service.js';
import { OperationsController } from './operations.controller.js';
import { ProjectIds } from './project-ids.js';
import { ProjectNumbers } from './project-numbers.js';
import { ProjectOwners } from './project-owners.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { SecretsOfProjects } from './project-secrets.js';
import { ProjectTransfers } from './project-transfers.js';
import { ProjectsController } from './projects.controller.js';
import { ProjectsRepository } from './projects.repository.js';
import { ProjectsService } from './projects.service.js';
import { RecentKeys } from './recent-keys.js';
import { SuspensionsController } from './suspensions.controller.js';

@Module({
  controllers: [
    AssignmentsController,
    MachinesController,
    OperationsController,
    ProjectsController,
    SuspensionsController,
  ],
  providers: [
    ProjectsService,
    ProjectsRepository,
    GitTokenUpkeep,
    MachinesService,
    ProjectIds,
    ProjectNumbers,
    ProjectOwners,
    ProjectOwnersRepository,
    ProjectTransfers,
    RecentKeys,
    SecretsOfProjects,
    ExclusiveWork,
  ],
  exports: [ProjectsService, ProjectIds, ProjectNumbers, RecentKeys, SecretsOfProjects, ExclusiveWork],
})
export class ProjectsModule {}
