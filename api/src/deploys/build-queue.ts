/**
 * Creates the Builds of a project, which the operator starts. A deploy of what a waiting Build will build gets that
 * Build, so that a burst of deploys pushes no Build out of the history. A deploy of something else gets a Build of its
 * own, which supersedes the waiting ones of the same branch. In: a project to deploy. Out: its Build. Replicas create
 * Builds of a project one after another.
 */
import { Injectable } from '@nestjs/common';
import {
  ANNOTATION_CANCEL,
  ANNOTATION_REMOVE_PREVIEW,
  BUILD_BUDGET,
  type BuildSpec,
  buildsInOrder,
  isBuildFinished,
  isBuildWaiting,
  isOfSite,
  isPushCheck,
  isSuspended,
  numberOfBuild,
} from '@slipway/crds';
import { PREVIEW_LIMITS } from '@slipway/installation';
import { isConflict } from '@slipway/kubernetes';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { BuildResources, type SeenBuild } from './build-resources.js';
import type { Deployed } from './deploy.schema.js';

/**
 * Maximum number of names that are tried for a Build, because kubectl may just have created a Build of the same name.
 */
const TRIES = 3;
/**
 * Number of Builds beyond the budget. The operator deletes Builds beyond the budget. If no operator runs, a deploy
 * beyond this number creates no Build: the newest waiting Build deploys the same commit.
 */
const MORE_BUILDS = 10;

export type BuildRequest = Pick<BuildSpec, 'trigger' | 'revision' | 'deployment' | 'preview'>;

@Injectable()
export class BuildQueue {
  constructor(
    private readonly resources: BuildResources,
    private readonly exclusive: ExclusiveWork,
  ) {}

  /** Returns the Build that does what the request says: a waiting one, or a new one. */
  add(id: number, project: SeenProject, request: BuildRequest): Promise<SeenBuild> {
    return this.exclusive.run('projectBuilds', id, async () => {
      const ref = project.metadata.name;
      const builds = await this.resources.list(ref);
      return joinedBuild(project, builds, request) ?? (await this.create(project, builds, request));
    });
  }

  /** Creates a Build beside the existing `builds`. The caller must hold the exclusive lock. */
  async create(
    project: SeenProject,
    builds: readonly SeenBuild[],
    request: BuildRequest,
    annotations: Record<string, string> = {},
  ): Promise<SeenBuild> {
    let others = builds;
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      const name = `build-${Math.max(0, ...others.map((other) => numberOfBuild(other) ?? 0)) + 1}`;
      const build = await this.resources.create(project, { name, annotations }, request).catch((error: unknown) => {
        if (isConflict(error)) return 'taken' as const;
        throw error;
      });
      if (build !== 'taken') return build;
      others = await this.resources.list(project.metadata.name);
    }
    throw new Problem('conflict', 'Builds of the project are made by others at the same time. Try again.');
  }

  /**
   * Requests the removal of a branch's preview: the operator removes everything that the newest Build of the branch and
   * all before it made. Returns the name of that Build; undefined: the branch has no preview, and no Build of one.
   */
  removePreview(id: number, project: SeenProject, branch: string): Promise<string | undefined> {
    return this.exclusive.run('projectBuilds', id, async () =>
      this.removePreviewAmong(await this.resources.list(project.metadata.name), branch),
    );
  }

  /** Does the same for the existing `builds`. The caller must hold the exclusive lock. */
  async removePreviewAmong(
    builds: readonly SeenBuild[],
    branch: string,
    annotationsOf: (build: SeenBuild) => Record<string, string> = () => ({}),
  ): Promise<string | undefined> {
    const ofBranch = buildsInOrder(builds.filter(({ spec }) => spec.preview === branch));
    const newest = ofBranch.at(-1);
    if (!newest || isRemoved(newest) || !ofBranch.some(isThere)) return undefined;
    await this.resources.annotate(newest, { [ANNOTATION_REMOVE_PREVIEW]: 'api', ...annotationsOf(newest) });
    return newest.metadata.name;
  }
}

/** Returns the response to a deploy whose Build has the name. */
export function queuedAs(name: string, project: SeenProject): Deployed {
  const how = isSuspended(project) ? 'is queued, and waits until the project is resumed' : 'is queued';
  return { ok: true, message: `${name} ${how}`, build_id: idOf(name) };
}

/** Returns the number of a Build that this queue named. */
export const idOf = (name: string): number | null => numberOfBuild({ metadata: { name } }) ?? null;

/** Returns the newest Build that waits for a preview of the branch, or for the site. */
export const waitingFor = (builds: readonly SeenBuild[], preview: string | undefined): SeenBuild | undefined =>
  buildsInOrder(builds.filter((build) => build.spec.preview === preview && isToRun(build) && !isPushCheck(build))).at(
    -1,
  );

/** True if builds of previews wait for as many other branches as the plan has previews. */
export function isPreviewQueueFull({ spec }: SeenProject, builds: readonly SeenBuild[], branch: string): boolean {
  const waiting = new Set(
    builds.filter((build) => !isOfSite(build) && isToRun(build)).map(({ spec: { preview } }) => preview),
  );
  return !waiting.has(branch) && waiting.size >= PREVIEW_LIMITS[spec.plan ?? 'free'].previews;
}

/**
 * Returns the waiting Build that also serves this request: it clones later than now. Undefined: the request needs a
 * Build of its own.
 */
function joinedBuild(project: SeenProject, builds: readonly SeenBuild[], request: BuildRequest): SeenBuild | undefined {
  const { preview } = request;
  const budget = preview === undefined ? BUILD_BUDGET.buildsOfProject : BUILD_BUDGET.buildsOfPreviews;
  const alike = builds.filter((build) => isOfSite(build) === (preview === undefined));
  const isFull = preview !== undefined && isPreviewQueueFull(project, builds, preview);
  if (isFull) throw new Problem('conflict', 'Previews of too many other branches wait to be built. Try again later.');
  const waiting = waitingFor(builds, preview);
  const isSame =
    waiting?.spec.project === project.metadata.name &&
    waiting.spec.revision === request.revision &&
    waiting.spec.deployment === request.deployment;
  return isSame || alike.length >= budget + MORE_BUILDS ? waiting : undefined;
}

const isToRun = (build: SeenBuild) =>
  isBuildWaiting(build) && build.metadata.annotations?.[ANNOTATION_CANCEL] === undefined && !isRemoved(build);

const isRemoved = ({ metadata }: SeenBuild) => metadata.annotations?.[ANNOTATION_REMOVE_PREVIEW] !== undefined;

const isThere = (build: SeenBuild) => !isBuildFinished(build) || build.status?.phase === 'Deployed';
