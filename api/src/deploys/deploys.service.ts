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
import { ProjectsService, refuseDeleting, refuseOtherTypes } from '../projects/projects.service.js';
import { LOG } from '../settings/injected.js';
import { BuildOutputs } from './build-outputs.js';
import { BuildQueue, type BuildRequest, idOf, queuedAs } from './build-queue.js';
import { Deliveries, type DeployRequest } from './deliveries.js';
import { type Accepted, DeliveryQueue, NO_PREVIEW } from './delivery-queue.js';
import {
  type BranchDeploy,
  type BuildLog,
  DEPLOY_KEY_NOTE,
  type Deployed,
  type DeployKeyAnswer,
} from './deploy.schema.js';
import { newDeployKey } from './deploy-key.js';
import { decide, type PushSettings } from './push-event.js';

@Injectable()
export class DeploysService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly exclusive: ExclusiveWork,
    private readonly queue: BuildQueue,
    private readonly outputs: BuildOutputs,
    private readonly deliveries: Deliveries,
    private readonly deliveryQueue: DeliveryQueue,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async deploy(request: DeployRequest): Promise<Deployed> {
    const { project, payload, webhook } = await this.deliveries.receive(request);
    refuseUnbuildable(project);
    const decision = decide(request.headers, payload, settingsOf(project));
    if (decision.kind === 'ignored') return ignored(decision.reason);
    if (webhook) {
      const delivery = { wanted: decision, keys: webhook.keys };
      return answerOf(project, await this.deliveryQueue.accept(request.id, project, delivery));
    }
    switch (decision.kind) {
      case 'removal':
        return await this.removePreview(request.id, project, decision.branch);
      case 'preview':
        return await this.add(request.id, project, { preview: decision.branch });
      case 'build': {
        const { revision } = decision;
        return await this.add(request.id, project, revision === undefined ? {} : { revision });
      }
    }
  }

  async deployBranch(caller: Principal, id: number, { branch, preview }: BranchDeploy): Promise<Deployed> {
    const { project } = await this.projects.find(caller, id);
    refuseUnbuildable(project);
    const { productionBranch } = settingsOf(project);
    if (preview !== true) {
      return this.add(id, project, branch === productionBranch ? {} : { revision: revisionOfBranch(branch) });
    }
    if (branch === productionBranch) throw invalid('branch', 'is the production branch, which has no preview');
    refuseWithoutPreviews(project);
    return this.add(id, project, { preview: branch });
  }

  private async removePreview(id: number, project: SeenProject, branch: string): Promise<Deployed> {
    const build = await this.queue.removePreview(id, project, branch);
    return build === undefined ? ignored(NO_PREVIEW) : removed(build);
  }

  private async add(id: number, project: SeenProject, request: BuildRequest): Promise<Deployed> {
    const { metadata } = await this.queue.add(id, project, { trigger: 'api', ...request });
    return queuedAs(metadata.name, project);
  }

  async readLogs(caller: Principal, id: number): Promise<BuildLog> {
    const { project } = await this.projects.find(caller, id);
    return await this.outputs.latest(project.metadata.name);
  }

  /** The earlier private key is overwritten, so that only one key is active. */
  async replaceDeployKey(caller: Principal, id: number): Promise<DeployKeyAnswer> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseOtherTypes(project);
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

const settingsOf = ({ spec: { source } }: SeenProject): PushSettings => ({
  productionBranch: source?.productionBranch ?? 'main',
  previews: source?.previews ?? false,
});

function answerOf(project: SeenProject, accepted: Accepted): Deployed {
  switch (accepted.kind) {
    case 'queued':
      return queuedAs(accepted.build, project);
    case 'removed':
      return removed(accepted.build);
    case 'replayed':
      return ignored(`the delivery was accepted before, by ${accepted.build}`, idOf(accepted.build));
    case 'unneeded':
      return ignored(accepted.reason);
  }
}

const removed = (build: string): Deployed => ({
  ok: true,
  message: `the preview that ${build} is of is removed`,
  build_id: null,
});

const ignored = (reason: string, build: number | null = null): Deployed => ({
  ok: true,
  ignored: true,
  message: `ignored: ${reason}`,
  build_id: build,
});

function refuseUnbuildable(project: SeenProject): void {
  refuseDeleting(project);
  refuseOtherTypes(project);
  refuseWithoutRepository(project);
}

export function refuseWithoutPreviews({ spec }: SeenProject): void {
  if (spec.source?.previews) return;
  throw new Problem('conflict', 'Previews of the project are off. Set previews by PATCH /projects/{id}, then deploy.');
}

function refuseWithoutRepository({ spec }: SeenProject): void {
  if (spec.source?.repoUrl) return;
  throw new Problem('no_repository', 'The project has no repo_url. Set it by PATCH /projects/{id}, then deploy.');
}
