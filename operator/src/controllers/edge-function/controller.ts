/** Wires the EdgeFunction controller: which changes start a reconcile of an EdgeFunction. */

import { type EdgeFunction } from '@slipway/crds';
import { namespaceOf, refOfNamespace } from '@slipway/installation';
import { Informer, type KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Controller } from '../../runtime/controller.js';
import type { Metrics } from '../../runtime/metrics.js';
import { StatusWriter } from '../../runtime/status-writer.js';
import { WorkQueue } from '../../runtime/work-queue.js';
import { reconcileFunction } from './reconcile.js';
import {
  addressKey,
  BY_ADDRESS,
  BY_NAMESPACE,
  EDGE_FUNCTIONS,
  type FunctionReconcilerDeps,
  functionPath,
  type KnownFunction,
  withoutCode,
} from './resources.js';

/** Number of workers. Several deploys run at once, because they mostly wait for downloads. */
const WORKERS = 8;
const BACKOFF = { firstMs: 100, maxMs: 30_000 };

export const functionCache = (client: KubeClient, metrics: Metrics, log: Logger) =>
  new Informer<KnownFunction>({
    client,
    metrics,
    log,
    resource: 'edgefunctions',
    path: EDGE_FUNCTIONS,
    indexes: {
      [BY_ADDRESS]: (object) => [addressKey(object)],
      [BY_NAMESPACE]: ({ metadata }) => [metadata.namespace ?? ''],
    },
    keep: withoutCode,
  });

export function functionController(parts: Omit<FunctionReconcilerDeps, 'statuses'>, metrics: Metrics): Controller {
  const { client, events, functions } = parts;
  const statuses = new StatusWriter<KnownFunction>({ client, events, cache: functions, pathOf: functionPath });
  const deps: FunctionReconcilerDeps = { ...parts, statuses };
  const queue = new WorkQueue(BACKOFF, metrics.queue('edgefunction'));
  const add = ({ metadata }: EdgeFunction) => queue.add(`${metadata.namespace}/${metadata.name}`);
  deps.functions.onChange(({ before, after }) => {
    if (after && !(before && statuses.isOwn(before, after))) add(after);
    // An EdgeFunction that yielded to this one's name may get it now.
    for (const object of [before, after]) {
      if (object && !(before && after && addressKey(before) === addressKey(after))) {
        for (const peer of deps.functions.find(BY_ADDRESS, addressKey(object))) add(peer);
      }
    }
  });
  // When a project becomes healthy, it has the keys that its functions need to start.
  deps.projects.onChange(({ before, after }) => {
    if (!after || before?.status?.phase === after.status?.phase) return;
    for (const object of deps.functions.list())
      if (refOfNamespace(object.metadata.namespace) === after.metadata.name) add(object);
  });
  deps.engine.onLost?.((isLost) => {
    for (const object of deps.functions.list())
      if (isLost(refOfNamespace(object.metadata.namespace) ?? '')) add(object);
  });
  deps.engine.keepOnly?.((ref, name) => deps.functions.find(BY_ADDRESS, `${namespaceOf(ref)}/${name}`).length > 0);
  for (const object of deps.functions.list()) add(object);
  const reconcile = (key: string) => {
    const [namespace = '', name = ''] = key.split('/');
    return reconcileFunction(deps, namespace, name);
  };
  return new Controller({
    queue,
    reconcile,
    workers: WORKERS,
    metrics: metrics.controller('edgefunction'),
    log: deps.log,
  });
}
