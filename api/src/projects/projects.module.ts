import { Module } from '@nestjs/common';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { AssignmentsController } from './assignments.controller.js';
import { GitTokenUpkeep } from './git-token-upkeep.js';
import { MachinesController } from './machines.controller.js';
import { MachinesService } from './machines.service.js';
import { OperationsController } from './operations.controller.js';
import { ProjectIds } from './project-ids.js';
import { ProjectOwners } from './project-owners.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { ProjectRequests } from './project-requests.js';
import { SecretsOfProjects } from './project-secrets.js';
import { ProjectTransfers } from './project-transfers.js';
import { ProjectsController } from './projects.controller.js';
import { ProjectsRepository } from './projects.repository.js';
import { ProjectsService } from './projects.service.js';
import { RecentKeys } from './recent-keys.js';
import { SnapshotsController } from './snapshots.controller.js';
import { SnapshotsService } from './snapshots.service.js';
import { SuspensionsController } from './suspensions.controller.js';
import { UnitLogsService } from './unit-logs.service.js';

@Module({
  controllers: [
    AssignmentsController,
    MachinesController,
    OperationsController,
    ProjectsController,
    SnapshotsController,
    SuspensionsController,
  ],
  providers: [
    ProjectsService,
    ProjectsRepository,
    GitTokenUpkeep,
    MachinesService,
    ProjectIds,
    ProjectRequests,
    ProjectOwners,
    ProjectOwnersRepository,
    ProjectTransfers,
    RecentKeys,
    SecretsOfProjects,
    SnapshotsService,
    UnitLogsService,
    ExclusiveWork,
  ],
  exports: [
    ProjectsService,
    ProjectIds,
    ProjectRequests,
    RecentKeys,
    SecretsOfProjects,
    UnitLogsService,
    ExclusiveWork,
  ],
})
export class ProjectsModule {}
