/** Wires the Build controller: which changes start a reconcile of a project's builds. */
import type { Build, Project } from '@slipway/crds';
import { ANNOTATION_CLEAR_BUILD_CACHE, isSuspended, TYPES, typeOf } from '@slipway/crds';
import { refOfNamespace } from '@slipway/installation';
import { Informer, type KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Controller } from '../../runtime/controller.js';
import type { Metrics } from '../../runtime/metrics.js';
import { StatusWriter } from '../../runtime/status-writer.js';
import { WorkQueue } from '../../runtime/work-queue.js';
import { BuildTime } from './build-time.js';
import { reconcileBuilds } from './reconcile.js';
import { activityOf, BUILDS, type BuildReconcilerDeps, BY_ACTIVITY, BY_NAMESPACE, buildPath } from './resources.js';

/**
 * Number of workers. There is one, so that places are assigned one after another. A reconcile does not wait for a
 * build: it only records, starts and stops builds.
 */
const WORKERS = 1;
const BACKOFF = { firstMs: 100, maxMs: 30_000 };

export const buildCache = (client: KubeClient, metrics: Metrics, log: Logger) =>
  new Informer<Build>({
    client,
    metrics,
    log,
    resource: 'builds',
    path: BUILDS,
    indexes: { [BY_NAMESPACE]: ({ metadata }) => [metadata.namespace ?? ''], [BY_ACTIVITY]: activityOf },
  });

export function buildController(parts: Omit<BuildReconcilerDeps, 'statuses' | 'time'>, metrics: Metrics): Controller {
  const { client, events, builds, projects, engine } = parts;
  const statuses = new StatusWriter<Build>({ client, events, cache: builds, pathOf: buildPath });
  const deps: BuildReconcilerDeps = { ...parts, statuses, time: new BuildTime(parts) };
  const queue = new WorkQueue(BACKOFF, metrics.queue('build'));
  const look = (ref: string | undefined) => {
    if (ref !== undefined) queue.add(ref);
  };
  /** Starts reconciles of all waiting builds when a place has become free. */
  const lookAtWaiting = () => {
    for (const { metadata } of builds.find(BY_ACTIVITY, 'waiting')) look(refOfNamespace(metadata.namespace));
  };
  builds.onChange(({ before, after }) => {
    const isRunning = (build: Build | undefined) => build !== undefined && activityOf(build).includes('running');
    if (isRunning(before) && !isRunning(after)) lookAtWaiting();
    if (!(before && after && statuses.isOwn(before, after)))
      look(refOfNamespace((after ?? before)?.metadata.namespace));
  });
  projects.onChange(({ before, after }) => {
    const ref = (after ?? before)?.metadata.name;
    if (!isSameForBuilds(before, after)) look(ref);
  });
  engine.onChange(look);
  for (const { metadata } of builds.list()) look(refOfNamespace(metadata.namespace));
  // Builds may have been deleted while no operator ran: a reconcile removes their output.
  for (const project of projects.list()) if (TYPES[typeOf(project)].isBuilt) look(project.metadata.name);
  const turns = {
    lastStarts: new Map<string, number>(),
    lastChecks: new Map<string, number>(),
    ending: new Map<string, Build[]>(),
    look,
    lookAtWaiting,
  };
  return new Controller({
    queue,
    reconcile: (ref) => reconcileBuilds(deps, turns, ref),
    workers: WORKERS,
    metrics: metrics.controller('build'),
    log: deps.log,
  });
}

/**
 * True if no change matters to builds. A suspended project waits, a deleted one ends its builds, an annotation clears
 * the cache, and previews depend on settings.
 */
const isSameForBuilds = (before: Project | undefined, after: Project | undefined) =>
  before !== undefined &&
  after !== undefined &&
  isSuspended(before) === isSuspended(after) &&
  cacheAnnotationOf(before) === cacheAnnotationOf(after) &&
  before.spec.source?.previews === after.spec.source?.previews &&
  before.spec.source?.productionBranch === after.spec.source?.productionBranch &&
  before.spec.plan === after.spec.plan &&
  before.metadata.deletionTimestamp === after.metadata.deletionTimestamp;

const cacheAnnotationOf = ({ metadata }: Project) => metadata.annotations?.[ANNOTATION_CLEAR_BUILD_CACHE];
