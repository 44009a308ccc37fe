/**
 * Creates Builds for webhook deliveries, and removes previews of deleted branches. In: any number of deliveries at
 * once. Out: the Build of each. A delivery is accepted once a Build has its keys in an annotation, written together
 * with the Build. So a redelivery of a failed one builds, and a replay of an accepted one does not while that Build
 * exists.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { ANNOTATION_DELIVERIES, buildsInOrder, isBuildFinished, isOfSite } from '@slipway/crds';
import { TokenBuckets } from '@slipway/program';
import { ExclusiveWork } from '../database/exclusive-work.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { BuildQueue, isPreviewQueueFull, waitingFor } from './build-queue.js';
import { BuildResources, type SeenBuild } from './build-resources.js';
import type { Decision } from './push-event.js';

/**
 * Rate at which deliveries of one project become builds. All deliveries between two turns, which are a second apart,
 * become one build. No delivery is rejected, because GitLab disables a hook after failed deliveries.
 */
const PACE = { burst: 20, perSecond: 1 };
/**
 * Maximum number of keys that a Build stores; it keeps the newest. A replay of an older delivery builds the newest
 * commit again.
 */
export const MOST_KEYS = 256;

export interface Delivery {
  wanted: Exclude<Decision, { kind: 'ignored' }>;
  keys: readonly string[];
}

/** `unneeded`: there is nothing to build or remove. */
export type Accepted =
  | { kind: 'queued' | 'removed' | 'replayed'; build: string }
  | { kind: 'unneeded'; reason: string };

type Waiting = Delivery & { resolve: (accepted: Accepted) => void; reject: (error: unknown) => void };

@Injectable()
export class DeliveryQueue {
  private readonly pace = new TokenBuckets(PACE);
  /** Deliveries by project, in the order of their arrival. */
  private readonly waiting = new Map<number, Waiting[]>();

  constructor(
    private readonly builds: BuildQueue,
    private readonly resources: BuildResources,
    private readonly exclusive: ExclusiveWork,
  ) {}

  accept(id: number, project: SeenProject, delivery: Delivery): Promise<Accepted> {
    return new Promise((resolve, reject) => {
      const next = { ...delivery, resolve, reject };
      const waiting = this.waiting.get(id);
      if (waiting) return void waiting.push(next);
      this.waiting.set(id, [next]);
      void this.takeAll(id, project);
    });
  }

  private async takeAll(id: number, project: SeenProject): Promise<void> {
    let taken: Waiting[] | undefined;
    const take = () => {
      taken = this.waiting.get(id) ?? [];
      this.waiting.delete(id);
      return taken;
    };
    try {
      const bucket = this.pace.of(project.metadata.uid);
      for (let wait = bucket.take(); wait > 0; wait = bucket.take()) await pause(wait * 1000);
      await this.exclusive.run('projectBuilds', id, () => this.settle(project, take()));
    } catch (error) {
      for (const { reject } of taken ?? take()) reject(error);
    }
  }

  private async settle(project: SeenProject, deliveries: readonly Waiting[]): Promise<void> {
    const builds = buildsInOrder(await this.resources.list(project.metadata.name));
    const known = new Map(builds.flatMap((build) => keysOf(build).map((key) => [key, build.metadata.name])));
    const buildOf = ({ keys }: Waiting) => keys.map((key) => known.get(key)).find((name) => name !== undefined);
    const fresh = deliveries.filter((each) => buildOf(each) === undefined);
    const outcomes = new Map<string | undefined, Accepted>();
    for (const [branch, ofBranch] of Map.groupBy(fresh, previewOf)) {
      outcomes.set(branch, await this.outcomeOf(project, builds, ofBranch));
    }
    for (const each of deliveries) {
      const build = buildOf(each);
      each.resolve(build === undefined ? (outcomes.get(previewOf(each)) as Accepted) : { kind: 'replayed', build });
    }
  }

  /** `deliveries` are those of the site, or of one branch with a preview. A new Build is added to `builds`. */
  private async outcomeOf(
    project: SeenProject,
    builds: SeenBuild[],
    deliveries: readonly Delivery[],
  ): Promise<Accepted> {
    const keys = deliveries.flatMap((delivery) => delivery.keys);
    const { wanted } = deliveries.at(-1) as Delivery;
    if (wanted.kind === 'removal') {
      const build = await this.builds.removePreviewAmong(builds, wanted.branch, (newest) => withKeys(newest, keys));
      return build === undefined ? { kind: 'unneeded', reason: NO_PREVIEW } : { kind: 'removed', build };
    }
    const preview = wanted.kind === 'preview' ? wanted.branch : undefined;
    if (preview !== undefined && isPreviewQueueFull(project, builds, preview)) {
      return { kind: 'unneeded', reason: FULL_QUEUE };
    }
    const { metadata } =
      (await this.joined(project, builds, preview, keys)) ??
      (await this.made(project, builds, { deliveries, preview, keys }));
    return { kind: 'queued', build: metadata.name };
  }

  /** A Build that waits for the newest commit of the branch clones later than now, so it also builds these pushes. */
  private async joined(
    project: SeenProject,
    builds: readonly SeenBuild[],
    preview: string | undefined,
    keys: readonly string[],
  ): Promise<SeenBuild | undefined> {
    const waiting = waitingFor(builds, preview);
    if (!waiting || !isOfBranch(waiting, project.metadata.name)) return undefined;
    if (keys.length > 0) await this.resources.annotate(waiting, withKeys(waiting, keys));
    return waiting;
  }

  /**
   * Hosts do not deliver in the order of the pushes. So a commit is built by its hash only if no other build of the
   * site waits or runs.
   */
  private async made(
    project: SeenProject,
    builds: SeenBuild[],
    { deliveries, preview, keys }: { deliveries: readonly Delivery[]; preview: string | undefined; keys: string[] },
  ): Promise<SeenBuild> {
    const [first] = deliveries;
    const revision = first?.wanted.kind === 'build' ? first.wanted.revision : undefined;
    const isAlone = deliveries.length === 1 && builds.filter(isOfSite).every(isBuildFinished);
    const request = {
      trigger: 'webhook' as const,
      ...(preview === undefined ? {} : { preview }),
      ...(isAlone && revision !== undefined ? { revision } : {}),
    };
    const build = await this.builds.create(project, builds, request, annotationOf(keys));
    builds.push(build);
    return build;
  }
}

export const NO_PREVIEW = 'the branch was deleted, and has no preview';
const FULL_QUEUE = 'previews of too many other branches wait to be built: push again later';

const previewOf = ({ wanted }: Delivery) => (wanted.kind === 'build' ? undefined : wanted.branch);

const isOfBranch = ({ spec }: SeenBuild, ref: string) =>
  spec.project === ref && spec.revision === undefined && spec.deployment === undefined;

const keysOf = ({ metadata }: SeenBuild) =>
  metadata.annotations?.[ANNOTATION_DELIVERIES]?.split(' ', MOST_KEYS).filter((key) => key !== '') ?? [];

const annotationOf = (keys: readonly string[]): Record<string, string> =>
  keys.length === 0 ? {} : { [ANNOTATION_DELIVERIES]: [...new Set(keys)].slice(-MOST_KEYS).join(' ') };

const withKeys = (build: SeenBuild, keys: readonly string[]) => annotationOf([...keysOf(build), ...keys]);
