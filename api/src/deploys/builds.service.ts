/** Lists the builds of a project, and acts on one of them. */
import { Injectable } from '@nestjs/common';
import {
  ANNOTATION_CANCEL,
  ANNOTATION_CLEAR_BUILD_CACHE,
  isBuildFinished,
  isOfSite,
  numberOfBuild,
} from '@slipway/crds';
import type { Principal } from '../callers/principal.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import type { Following } from '../live/followers.js';
import { refuseUnbuilt } from '../projects/project-types.js';
import { ProjectsService, refuseDeleting } from '../projects/projects.service.js';
import type { BuildId, BuildView } from './build.schema.js';
import { BuildOutputs } from './build-outputs.js';
import { BuildQueue, type BuildRequest, queuedAs } from './build-queue.js';
import { BuildResources, type SeenBuild } from './build-resources.js';
import { viewsOf } from './build-view.js';
import type { Deployed } from './deploy.schema.js';
import { refuseWithoutPreviews } from './deploys.service.js';
import { LogFollowers } from './log-followers.js';
import { piecesOf } from './log-texts.js';

@Injectable()
export class BuildsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly resources: BuildResources,
    private readonly queue: BuildQueue,
    private readonly outputs: BuildOutputs,
    private readonly followers: LogFollowers,
  ) {}

  async list(caller: Principal, id: number): Promise<BuildView[]> {
    const { project } = await this.projects.find(caller, id);
    return viewsOf(await this.resources.list(project.metadata.name));
  }

  async get(caller: Principal, id: number, number: number): Promise<BuildView> {
    const view = (await this.list(caller, id)).find((build) => build.id === number);
    if (!view) throw noBuild(number);
    return view;
  }

  async output(caller: Principal, id: number, number: number): Promise<AsyncIterable<Buffer>> {
    const { project, build } = await this.find(caller, id, number);
    return piecesOf(this.outputs.of(project.metadata.name, build.metadata.name), 0);
  }

  /** Yields the events of the output until the build ends or `closed` is aborted. */
  async follow(caller: Principal, { id, buildId }: BuildId, from: number, closed: AbortSignal): Promise<Following> {
    const { project, build } = await this.find(caller, id, buildId);
    // The build's spec.project is written by users of kubectl, and may name another project.
    const ref = project.metadata.name;
    const { name } = build.metadata;
    const ended = async () => {
      const now = await this.resources.get(ref, name);
      // Null: the build was deleted.
      return now && !isBuildFinished(now) ? undefined : { phase: now?.status?.phase ?? null };
    };
    const log = this.outputs.of(ref, name);
    return this.followers.follow({ ref, accountId: caller.user.id, log, ended, from }, closed);
  }

  /** The operator ends the build; until then its phase does not change. */
  async cancel(caller: Principal, id: number, number: number): Promise<BuildView> {
    const { build } = await this.find(caller, id, number);
    if (isBuildFinished(build)) {
      throw new Problem('conflict', `Build ${number} has ended (${build.status?.phase}): there is nothing to cancel.`);
    }
    await this.resources.annotate(build, { [ANNOTATION_CANCEL]: 'api' });
    return await this.get(caller, id, number);
  }

  /** Builds the same commit again, or the same revision if the build had no commit yet. */
  async redeploy(caller: Principal, id: number, number: number): Promise<Deployed> {
    const { project, build } = await this.find(caller, id, number);
    const { preview } = build.spec;
    if (preview !== undefined) refuseWithoutPreviews(project);
    const revision = build.status?.commit ?? build.spec.revision;
    return this.add(id, project, {
      trigger: 'api',
      ...(revision === undefined ? {} : { revision }),
      ...(preview === undefined ? {} : { preview }),
    });
  }

  async rollBack(caller: Principal, id: number, number: number): Promise<Deployed> {
    const { project, build } = await this.find(caller, id, number);
    if (!isOfSite(build)) {
      throw new Problem('conflict', `Build ${number} is of a preview, which is not rolled back. Redeploy the build.`);
    }
    const deployment = build.spec.deployment ?? build.metadata.name;
    if (build.status?.phase !== 'Deployed') {
      throw new Problem('conflict', `Build ${number} was not deployed, so that there is nothing to roll back to.`);
    }
    return this.add(id, project, { trigger: 'api', deployment });
  }

  /** The operator clears the cache once no build of the project runs. */
  async clearCache(caller: Principal, id: number): Promise<void> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseUnbuilt(project);
    await this.projects.patch(project, {}, { [ANNOTATION_CLEAR_BUILD_CACHE]: new Date().toISOString() });
  }

  private async add(id: number, project: SeenProject, request: BuildRequest): Promise<Deployed> {
    refuseDeleting(project);
    const { metadata } = await this.queue.add(id, project, request);
    return queuedAs(metadata.name, project);
  }

  private async find(caller: Principal, id: number, number: number) {
    const { project } = await this.projects.find(caller, id);
    const builds = await this.resources.list(project.metadata.name);
    const build = builds.find((each: SeenBuild) => numberOfBuild(each) === number);
    if (!build) throw noBuild(number);
    return { project, build };
  }
}

const noBuild = (number: number) =>
  new Problem('not_found', `The project has no build ${number}: GET /projects/{id}/builds lists those that are kept.`);
