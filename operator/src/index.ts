/**
 * The operator: reconcile loops that bring about the state which Projects request, and write their status. In: the
 * Kubernetes API, Postgres as superuser, and the data plane to probe. Out: databases, Secrets, status. Started by the
 * one-machine program.
 */

import type { Server } from 'node:http';
import { OPERATOR_LEASE, type OpenedServices, SYSTEM_NAMESPACE } from '@slipway/installation';
import { KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import { type Logger, pino } from 'pino';
import { install, placesOf, secretsOfEngine } from './compose.js';
import { functionCache } from './controllers/edge-function/controller.js';
import { controllersOf } from './controllers/index.js';
import { projectCaches } from './controllers/project/controller.js';
import type { Controller } from './runtime/controller.js';
import { EventRecorder } from './runtime/events.js';
import type { Lookup } from './runtime/host-addresses.js';
import { LeaderElection } from './runtime/leader-election.js';
import { Metrics } from './runtime/metrics.js';
import { processIdentity } from './runtime/process-identity.js';
import { startStatusServer } from './runtime/status-server.js';
import type { OperatorSettings } from './settings.js';
import { projectTypes } from './types/index.js';

export type { ClusterSettings, MachineSettings, OperatorSettings } from './settings.js';

export interface Operator {
  /** Resolves when this operator leads and its engine has begun to prepare. */
  leading: Promise<void>;
  /** Resolves when this operator may no longer lead. The process should exit, and a new one start. */
  lost: Promise<void>;
  close(): Promise<void>;
}

/** Parts that a test may replace. */
export interface OperatorParts {
  log?: Logger;
  lookup?: Lookup;
}

/** Resolves once the caches are filled. The work begins when this operator leads. */
export async function startOperator(settings: OperatorSettings, parts: OperatorParts = {}): Promise<Operator> {
  const log = parts.log ?? pino({ level: settings.logLevel, base: { program: 'operator' } });
  const metrics = new Metrics();
  const client = await KubeClient.connect(await loadKubeConfig(settings.kubeconfig), { observe: metrics.request });
  const events = new EventRecorder({ client, component: 'slipway-operator', log });
  const caches = projectCaches(client, metrics, log, secretsOfEngine(settings));
  const functions = functionCache(client, metrics, log);
  const installed = await install(settings, { client, caches, metrics, events, log, lookup: parts.lookup });
  const { capabilities, projectUrl, hostCheck } = installed;
  const informers = [...Object.values(caches), functions, ...installed.informers];
  let filled = false;
  const server = await startStatusServer({ listen: settings.listen, metrics, isReady: () => filled });
  await Promise.all(informers.map((informer) => informer.start()));
  filled = true;

  const lost = Promise.withResolvers<void>();
  const election = new LeaderElection({
    client,
    namespace: SYSTEM_NAMESPACE,
    name: OPERATOR_LEASE,
    identity: settings.identity ?? processIdentity(),
    onLost: () => {
      log.error('lease lost: another operator may lead');
      metrics.leading.set(0);
      lost.resolve();
    },
    log,
  });
  let controllers: Controller[] = [];
  const leading = election.acquire().then((leads) => {
    if (!leads) return;
    log.info('leading');
    metrics.leading.set(1);
    installed.begin();
    const deps = {
      client,
      capabilities,
      types: projectTypes,
      places: placesOf(settings),
      events,
      log,
      projectUrl,
      hostCheck,
      now: () => new Date(),
      ...caches,
    };
    controllers = controllersOf({
      ofProjects: deps,
      ofBuilds: { ...deps, engine: capabilities.builds, pushCheckMs: PUSH_CHECK_MS },
      ofFunctions: { ...deps, engine: installed.functions, functions, openedServices: openedBy(settings) },
      onChildChange: installed.onChange,
      metrics,
    });
    for (const controller of controllers) controller.start();
  });

  const close = async () => {
    const released = Promise.all(controllers.map((controller) => controller.close()));
    await Promise.all(informers.map((informer) => informer.close()));
    await released;
    await installed.close();
    await events.close();
    await election.close();
    await closed(server);
    await client.close();
  };
  return { leading, lost: lost.promise, close };
}

/** Milliseconds between checks of repositories for pushes that no webhook delivered. */
const PUSH_CHECK_MS = 15 * 60_000;

const closed = (server: Server): Promise<unknown> =>
  new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });

const openedBy = (settings: OperatorSettings): OpenedServices =>
  'site' in settings ? { shared: settings.site.openedServices } : (settings.openedServices ?? {});
