/** Deploys apps: containers that are built from the Dockerfile of a git repository. */
import { Injectable } from '@nestjs/common';
import type { Principal } from '../callers/principal.js';
import { refuseExceptApps } from '../projects/project-types.js';
import { ProjectsService } from '../projects/projects.service.js';
import { DeliveredDeploys, productionBranchOf, refuseUnbuildable } from './delivered-deploys.js';
import type { DeliveryRoute, DeployRequest } from './deliveries.js';
import { ONLY_JSON } from './delivery-body.js';
import type { Deployed } from './deploy.schema.js';

const APPS: DeliveryRoute = {
  forms: ONLY_JSON,
  refuseOthers: (project) =>
    refuseExceptApps(project, 'Deploy a site by POST /projects/{id}/deploy, which is its webhook_url too.'),
  settingsOf: (project) => ({
    productionBranch: productionBranchOf(project),
    noPreviews: 'an app has no previews',
  }),
};

@Injectable()
export class AppsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly deploys: DeliveredDeploys,
  ) {}

  async deploy(caller: Principal, id: number): Promise<Deployed> {
    const { project } = await this.projects.find(caller, id);
    refuseUnbuildable(project, APPS);
    return this.deploys.add(id, project, {});
  }

  deliver(request: DeployRequest): Promise<Deployed> {
    return this.deploys.deploy(request, APPS);
  }
}
