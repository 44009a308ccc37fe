/**
 * The operator: reconcile loops that drive the world to what Projects ask for, and write their status. In: the
 * Kubernetes API, Postgres as superuser, the data plane to probe. Out: databases, Secrets, status. Started by the
 * one-machine program.
 */
import { KubeConfig } from '@kubernetes/client-node';
import { OPERATOR_LEASE, type OpenedServices, SYSTEM_NAMESPACE } from '@slipway/crds';
import { pino } from 'pino';
import { functionCache, functionController } from './controllers/edge-function/controller.js';
import { projectCaches, projectController } from './controllers/project/controller.js';
import { installedEngine, secretsOfEngine } from './engines/create-engine.js';
import type { Controller } from './runtime/controller.js';
import { EventRecorder } from './runtime/events.js';
import { KubeClient } from './runtime/kube.js';
import { LeaderElection } from './runtime/leader-election.js';
import { Metrics } from './runtime/metrics.js';
import { processIdentity } from './runtime/process-identity.js';
import { startStatusServer } from './runtime/status-server.js';
import type { OperatorSettings } from './settings.js';

export type { ClusterSettings, MachineSettings, OperatorSettings } from './settings.js';

export interface Operator {
  /** Resolves when it leads and its engine has been told to get ready. */
  leading: Promise<void>;
  /** Resolves when it may lead no longer: the process should end, and a new one begin. */
  lost: Promise<void>;
  close(): Promise<void>;
}

/** Resolves once its caches are filled; it begins to work when it leads. */
export async function startOperator(settings: OperatorSettings): Promise<Operator> {
  const log = pino({ level: settings.logLevel, base: { program: 'operator' } });
  const metrics = new Metrics();
  const client = await KubeClient.connect(kubeConfig(settings.kubeconfig), metrics.request);
  const events = new EventRecorder({ client, component: 'slipway-operator', log });
  const caches = projectCaches(client, metrics, log, secretsOfEngine(settings));
  const functions = functionCache(client, metrics, log);
  const installed = await installedEngine(settings, { client, caches, metrics, events, log });
  const { engine, projectUrl } = installed;
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
    const deps = { client, engine, events, log, projectUrl, now: () => new Date(), ...caches };
    const functionWorld = { ...deps, engine: installed.functions, functions, openedServices: openedBy(settings) };
    controllers = [projectController(deps, metrics, installed.onChange), functionController(functionWorld, metrics)];
    for (const controller of controllers) controller.start();
  });

  const close = async () => {
    const released = Promise.all(controllers.map((controller) => controller.close()));
    await Promise.all(informers.map((informer) => informer.close()));
    await released;
    await installed.close();
    await events.close();
    await election.close();
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
    await client.close();
  };
  return { leading, lost: lost.promise, close };
}

const openedBy = (settings: OperatorSettings): OpenedServices =>
  'site' in settings ? { shared: settings.site.openedServices } : (settings.openedServices ?? {});

function kubeConfig(path: string | undefined): KubeConfig {
  const config = new KubeConfig();
  if (path === undefined) config.loadFromCluster();
  else config.loadFromFile(path);
  return config;
}
