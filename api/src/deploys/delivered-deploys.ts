/**
 * Deploys for an event of a git host: builds, removes a preview, or does nothing. In: a request, and the route that
 * received it. Out: the response. Callers: the services of sites and of apps.
 */
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { refuseDeleting } from '../projects/projects.service.js';
import { BuildQueue, type BuildRequest, idOf, queuedAs } from './build-queue.js';
import { Deliveries, type DeliveryRoute, type DeployRequest } from './deliveries.js';
import { type Accepted, DeliveryQueue, NO_PREVIEW } from './delivery-queue.js';
import type { Deployed } from './deploy.schema.js';
import { decide } from './push-event.js';

@Injectable()
export class DeliveredDeploys {
  constructor(
    private readonly queue: BuildQueue,
    private readonly deliveries: Deliveries,
    private readonly deliveryQueue: DeliveryQueue,
  ) {}

  async deploy(request: DeployRequest, route: DeliveryRoute): Promise<Deployed> {
    const { project, payload, webhook } = await this.deliveries.receive(request, route);
    refuseUnbuildable(project, route);
    const decision = decide(request.headers, payload, route.settingsOf(project));
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

  /** Queues a Build that the owner requested. */
  async add(id: number, project: SeenProject, request: BuildRequest): Promise<Deployed> {
    const { metadata } = await this.queue.add(id, project, { trigger: 'api', ...request });
    return queuedAs(metadata.name, project);
  }

  private async removePreview(id: number, project: SeenProject, branch: string): Promise<Deployed> {
    const build = await this.queue.removePreview(id, project, branch);
    return build === undefined ? ignored(NO_PREVIEW) : removed(build);
  }
}

/** Rejects a project that is being deleted, is of another type, or has no repository. */
export function refuseUnbuildable(project: SeenProject, { refuseOthers }: Pick<DeliveryRoute, 'refuseOthers'>): void {
  refuseDeleting(project);
  refuseOthers(project);
  if (project.spec.source?.repoUrl) return;
  throw new Problem('no_repository', 'The project has no repo_url. Set it by PATCH /projects/{id}, then deploy.');
}

export const productionBranchOf = ({ spec }: SeenProject): string => spec.source?.productionBranch ?? 'main';

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
