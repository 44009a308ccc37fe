/** Wires the Project controller: which changes start a reconcile of a Project. */

import type { Build, Project } from '@slipway/crds';
import { LABEL_PROJECT, refOfNamespace } from '@slipway/installation';
import { Informer, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Controller } from '../../runtime/controller.js';
import type { Metrics } from '../../runtime/metrics.js';
import { StatusWriter } from '../../runtime/status-writer.js';
import { WorkQueue } from '../../runtime/work-queue.js';
import { buildCache } from '../build/controller.js';
import type { ReconcilerDeps } from './context.js';
import { keepOfSecrets } from './generated-secrets.js';
import { reconcileProject } from './reconcile.js';
import { NAMESPACES, type Namespace, PROJECTS, projectPath, type Secret } from './resources.js';
import { COPIES, LABEL_COPY, withoutValues } from './secret-copies.js';
import { BY_NAME, nameKey } from './steps/validate.js';

/** Number of workers. Many reconciles run at once, because they mostly wait for Postgres and the API server. */
const WORKERS = 16;
/** The index of apps by the project that they are linked to. */
const BY_LINK = 'by-database-link';
const BACKOFF = { firstMs: 50, maxMs: 30_000 };

export interface ProjectCaches {
  projects: Informer<Project>;
  namespaces: Informer<Namespace>;
  secrets: Informer<Secret>;
  copies: Informer<Secret>;
  builds: Informer<Build>;
}

/** Creates the caches. `isEngines`: true for a Secret whose values the engine compares. */
export function projectCaches(
  client: KubeClient,
  metrics: Metrics,
  log: Logger,
  isEngines: (secret: Secret) => boolean,
): ProjectCaches {
  const shared = { client, metrics, log };
  const labelled = { ...shared, labelSelector: LABEL_PROJECT };
  return {
    projects: new Informer<Project>({
      ...shared,
      resource: 'projects',
      path: PROJECTS,
      indexes: {
        [BY_NAME]: (project) => [nameKey(project)],
        [BY_LINK]: ({ spec: { app } }) => (app?.databaseProject === undefined ? [] : [app.databaseProject]),
      },
    }),
    namespaces: new Informer<Namespace>({ ...labelled, resource: 'namespaces', path: NAMESPACES }),
    secrets: new Informer<Secret>({
      ...labelled,
      resource: 'secrets',
      path: '/api/v1/secrets',
      keep: keepOfSecrets(isEngines),
    }),
    copies: new Informer<Secret>({
      ...shared,
      labelSelector: LABEL_COPY,
      resource: 'secrets',
      path: COPIES,
      keep: withoutValues,
    }),
    builds: buildCache(client, metrics, log),
  };
}

/** `onChildChange`: registers a listener that the engine calls with the project of a changed object. */
export function projectController(
  parts: Omit<ReconcilerDeps, 'statuses'>,
  metrics: Metrics,
  onChildChange: (listener: (ref: string) => void) => void,
): Controller {
  const { client, events, projects } = parts;
  const pathOf = ({ metadata }: Project) => projectPath(metadata.name);
  const statuses = new StatusWriter<Project>({ client, events, cache: projects, pathOf });
  const deps: ReconcilerDeps = { ...parts, statuses };
  const queue = new WorkQueue(BACKOFF, metrics.queue('project'));
  const enqueueLinked = (ref: string | undefined) => {
    for (const app of ref ? deps.projects.find(BY_LINK, ref) : []) queue.add(app.metadata.name);
  };
  deps.projects.onChange(({ before, after }) => {
    if (before && after && statuses.isOwn(before, after)) return;
    if (after) queue.add(after.metadata.name);
    enqueueLinked((after ?? before)?.metadata.name);
    // A project that yielded to this one's name may get it now.
    for (const object of [before, after]) {
      if (object && !(before && after && nameKey(before) === nameKey(after))) {
        for (const peer of deps.projects.find(BY_NAME, nameKey(object))) queue.add(peer.metadata.name);
      }
    }
  });
  // For an unknown ref nothing is queued. A new object was made by the running reconcile, or another one already waits.
  const enqueue = (ref: string | undefined) => {
    if (ref && deps.projects.get(ref)) queue.add(ref);
  };
  const enqueueOwner = ({ before, after }: { before: KubeObject | undefined; after: KubeObject | undefined }) => {
    const ref = (after ?? before)?.metadata.labels?.[LABEL_PROJECT];
    enqueue(ref);
    // Its keys may have changed.
    enqueueLinked(ref);
  };
  deps.namespaces.onChange(enqueueOwner);
  deps.secrets.onChange(enqueueOwner);
  onChildChange(enqueue);
  deps.builds.onChange(({ before, after }) => {
    if (before?.status?.phase !== after?.status?.phase) enqueue(refOfNamespace((after ?? before)?.metadata.namespace));
  });
  for (const project of deps.projects.list()) queue.add(project.metadata.name);
  const reconcile = (ref: string) => reconcileProject(deps, ref);
  return new Controller({ queue, reconcile, workers: WORKERS, metrics: metrics.controller('project'), log: deps.log });
}
