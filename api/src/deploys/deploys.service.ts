/** Deploys of frontend projects from their git repository, and the keys that read it. */
import { Inject, Injectable } from '@nestjs/common';
import { revisionOfBranch } from '@slipway/crds';
import { SECRETS } from '@slipway/installation';
import type { Logger } from 'pino';
import type { Principal } from '../callers/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { invalid, Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { refuseExceptSites } from '../projects/project-types.js';
import { ProjectsService, refuseDeleting } from '../projects/projects.service.js';
import { LOG } from '../settings/injected.js';
import { BuildOutputs } from './build-outputs.js';
import { DeliveredDeploys, productionBranchOf, refuseUnbuildable } from './delivered-deploys.js';
import type { DeliveryRoute, DeployRequest } from './deliveries.js';
import { JSON_OR_FORM } from './delivery-body.js';
import {
  type BranchDeploy,
  type BuildLog,
  DEPLOY_KEY_NOTE,
  type Deployed,
  type DeployKeyAnswer,
} from './deploy.schema.js';
import { newDeployKey } from './deploy-key.js';

const SITES: DeliveryRoute = {
  forms: JSON_OR_FORM,
  refuseOthers: (project) =>
    refuseExceptSites(project, 'Deploy an app by POST /projects/{id}/compute/deploy, and its webhook_url.'),
  settingsOf: (project) => ({
    productionBranch: productionBranchOf(project),
    noPreviews: project.spec.source?.previews ? undefined : 'previews are off',
  }),
};

@Injectable()
export class DeploysService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly exclusive: ExclusiveWork,
    private readonly deploys: DeliveredDeploys,
    private readonly outputs: BuildOutputs,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  deploy(request: DeployRequest): Promise<Deployed> {
    return this.deploys.deploy(request, SITES);
  }

  async deployBranch(caller: Principal, id: number, { branch, preview }: BranchDeploy): Promise<Deployed> {
    const { project } = await this.projects.find(caller, id);
    refuseUnbuildable(project, SITES);
    const productionBranch = productionBranchOf(project);
    if (preview !== true) {
      const request = branch === productionBranch ? {} : { revision: revisionOfBranch(branch) };
      return this.deploys.add(id, project, request);
    }
    if (branch === productionBranch) throw invalid('branch', 'is the production branch, which has no preview');
    refuseWithoutPreviews(project);
    return this.deploys.add(id, project, { preview: branch });
  }

  async readLogs(caller: Principal, id: number): Promise<BuildLog> {
    const { project } = await this.projects.find(caller, id);
    return await this.outputs.latest(project.metadata.name);
  }

  /** The earlier private key is overwritten, so that only one key is active. */
  async replaceDeployKey(caller: Principal, id: number): Promise<DeployKeyAnswer> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseExceptSites(
      project,
      'An app reads a private repository with a token: set github_token by PATCH /projects/{id}.',
    );
    const { name: ref } = project.metadata;
    const { publicKey, fingerprint, privateKey } = newDeployKey(`slipway-${ref}`);
    await this.exclusive.run('projectSecrets', id, async () => {
      await this.secrets.putGitCredential(project, SECRETS.git.deployKey, privateKey);
      const deployKeySecretRef = { name: SECRETS.git.name, key: SECRETS.git.deployKey };
      await this.projects.patch(project, { source: { deployKeySecretRef } });
    });
    this.log.info({ ref, fingerprint }, 'deploy key replaced');
    return { public_key: publicKey, fingerprint, note: DEPLOY_KEY_NOTE };
  }
}

export function refuseWithoutPreviews({ spec }: SeenProject): void {
  if (spec.source?.previews) return;
  throw new Problem('conflict', 'Previews of the project are off. Set previews by PATCH /projects/{id}, then deploy.');
}
