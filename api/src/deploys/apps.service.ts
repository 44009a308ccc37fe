/** Deploys apps, which are containers built from the Dockerfile of a git repository; rolls them back, restarts them. */
import { Injectable } from '@nestjs/common';
import { nextRequest, numberOfBuild } from '@slipway/crds';
import type { Principal } from '../callers/principal.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import type { Following } from '../live/followers.js';
import { ProjectRequests } from '../projects/project-requests.js';
import { refuseExceptApps } from '../projects/project-types.js';
import { ProjectsService, refuseDeleting } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import { AppOutputs } from './app-outputs.js';
import { BuildResources } from './build-resources.js';
import { liveOf, versionBefore } from './build-view.js';
import { BuildsService } from './builds.service.js';
import { DeliveredDeploys, productionBranchOf, refuseUnbuildable } from './delivered-deploys.js';
import type { DeliveryRoute, DeployRequest } from './deliveries.js';
import { ONLY_JSON } from './delivery-body.js';
import type { AppRollback, Deployed } from './deploy.schema.js';
import { LogFollowers } from './log-followers.js';
import { piecesOf, startOfLast } from './log-texts.js';

/** Maximum bytes of the last lines in a response. */
export const LOG_BYTES = 1024 * 1024;

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
    private readonly builds: BuildsService,
    private readonly resources: BuildResources,
    private readonly requests: ProjectRequests,
    private readonly outputs: AppOutputs,
    private readonly followers: LogFollowers,
  ) {}

  async deploy(caller: Principal, id: number): Promise<Deployed> {
    const { project } = await this.projects.find(caller, id);
    refuseUnbuildable(project, APPS);
    return this.deploys.add(id, project, {});
  }

  deliver(request: DeployRequest): Promise<Deployed> {
    return this.deploys.deploy(request, APPS);
  }

  async rollBack(caller: Principal, id: number, { build }: AppRollback): Promise<Deployed> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseExceptApps(project, 'Roll a site back by POST /projects/{id}/builds/{buildId}/rollback.');
    return this.builds.rollBack(caller, id, build ?? (await this.numberBefore(project)));
  }

  async restart(caller: Principal, id: number): Promise<void> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseExceptApps(project, 'A site has no process to restart: deploy it again by POST /projects/{id}/deploy.');
    refuseSuspended(project);
    await this.refuseUndeployed(project);
    await this.requests.write(id, project, ({ spec: { app } }) => ({ app: { restart: nextRequest(app?.restart) } }));
  }

  /** Yields the last lines of the app's output. */
  async output(caller: Principal, id: number, lines: number): Promise<AsyncIterable<Buffer>> {
    const log = this.outputs.of((await this.findApp(caller, id)).metadata.name);
    return piecesOf(log, await startOfLast(log, lines, LOG_BYTES));
  }

  /** Yields the events of the output from a position on, or from its last lines, until the project is removed. */
  async follow(
    caller: Principal,
    id: number,
    { lines, from }: { lines: number; from: number | undefined },
    closed: AbortSignal,
  ): Promise<Following> {
    const ref = (await this.findApp(caller, id)).metadata.name;
    const log = this.outputs.of(ref);
    const isGone = (error: unknown) => error instanceof Problem && error.kind === 'not_found';
    // Removed, or given to another account.
    const ended = () =>
      this.projects.find(caller, id).then(
        () => undefined,
        (error) => {
          if (isGone(error)) return {};
          throw error;
        },
      );
    const start = from ?? (await startOfLast(log, lines, LOG_BYTES));
    return this.followers.follow({ ref, accountId: caller.user.id, log, ended, from: start }, closed);
  }

  private async findApp(caller: Principal, id: number): Promise<SeenProject> {
    const { project } = await this.projects.find(caller, id);
    refuseExceptApps(project, 'A site has no process. Its builds have GET /projects/{id}/builds/{buildId}/logs.');
    return project;
  }

  private async numberBefore(project: SeenProject): Promise<number> {
    const builds = await this.resources.list(project.metadata.name);
    const before = versionBefore(builds);
    const number = before && numberOfBuild(before);
    if (number !== undefined) return number;
    const live = liveOf(builds);
    throw new Problem(
      'conflict',
      live === undefined
        ? 'Nothing is deployed, so that there is nothing to roll back to.'
        : `No version before ${live}, which is live, is kept. Name another by {"build": 7}: GET /projects/{id}/builds.`,
    );
  }

  /** The Build of an old deploy may be deleted, so the status counts too. */
  private async refuseUndeployed({ metadata, status }: SeenProject): Promise<void> {
    if (status?.services?.app?.image !== undefined || liveOf(await this.resources.list(metadata.name))) return;
    throw new Problem(
      'project_not_ready',
      'Nothing is deployed yet, so that there is nothing to restart. Deploy by POST /projects/{id}/compute/deploy.',
    );
  }
}
