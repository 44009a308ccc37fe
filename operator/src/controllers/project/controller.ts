/** Wires the Project controller: which changes of which objects make which Project be looked at. */

import { LABEL_PROJECT, type Project } from '@slipway/crds';
import type { Logger } from 'pino';
import { Controller } from '../../runtime/controller.js';
import { Informer } from '../../runtime/informer.js';
import type { KubeClient, KubeObject } from '../../runtime/kube.js';
import type { Metrics } from '../../runtime/metrics.js';
import { StatusWriter } from '../../runtime/status-writer.js';
import { WorkQueue } from '../../runtime/work-queue.js';
import type { ReconcilerDeps } from './context.js';
import { keepOfSecrets } from './generated-secrets.js';
import { reconcileProject } from './reconcile.js';
import { NAMESPACES, type Namespace, PROJECTS, projectPath, type Secret } from './resources.js';
import { COPIES, LABEL_COPY, withoutValues } from './secret-copies.js';
import { BY_NAME, nameKey } from './validate.js';

/** Reconciles wait for Postgres and the API server most of the time. */
const WORKERS = 16;
const BACKOFF = { firstMs: 50, maxMs: 30_000 };

export interface ProjectCaches {
  projects: Informer<Project>;
  namespaces: Informer<Namespace>;
  secrets: Informer<Secret>;
  copies: Informer<Secret>;
}

/** `isEngines`: of a Secret whose values the engine compares. */
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
      indexes: { [BY_NAME]: (project) => [nameKey(project)] },
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
  };
}

/** `onChildChange`: lets the engine tell of which project one of its objects changed. */
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
  deps.projects.onChange(({ before, after }) => {
    if (after && !(before && statuses.isOwn(before, after))) queue.add(after.metadata.name);
    // Who had to yield to this one's name may have it now.
    for (const object of [before, after]) {
      if (object && !(before && after && nameKey(before) === nameKey(after))) {
        for (const peer of deps.projects.find(BY_NAME, nameKey(object))) queue.add(peer.metadata.name);
      }
    }
  });
  // What was made for the first time was made by the reconcile that runs, or is waited for by one that looks again.
  const enqueue = (ref: string | undefined) => {
    if (ref && deps.projects.get(ref)) queue.add(ref);
  };
  const enqueueOwner = ({ before, after }: { before: KubeObject | undefined; after: KubeObject | undefined }) =>
    enqueue((after ?? before)?.metadata.labels?.[LABEL_PROJECT]);
  deps.namespaces.onChange(enqueueOwner);
  deps.secrets.onChange(enqueueOwner);
  onChildChange(enqueue);
  for (const project of deps.projects.list()) queue.add(project.metadata.name);
  const reconcile = (ref: string) => reconcileProject(deps, ref);
  return new Controller({ queue, reconcile, workers: WORKERS, metrics: metrics.controller('project'), log: deps.log });
}
