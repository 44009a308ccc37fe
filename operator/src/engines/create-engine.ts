/**
 * The engine that an installation has: the cluster's where its site is told, else that of one machine. In: the
 * operator's settings and caches. Out: the engine, what it watches beside the project's own, and where a project is.
 */
import { projectUrlByHost, projectUrlOf } from '@slipway/crds';
import type { Logger } from 'pino';
import type { ProjectCaches } from '../controllers/project/controller.js';
import { PlatformInstallation } from '../installation/installation.js';
import { functionsToken } from '../installation/secrets.js';
import type { EventRecorder } from '../runtime/events.js';
import type { Informer } from '../runtime/informer.js';
import type { KubeClient, KubeObject } from '../runtime/kube.js';
import type { Metrics } from '../runtime/metrics.js';
import type { ClusterSettings, MachineSettings, OperatorSettings } from '../settings.js';
import { EmbeddedEngine } from './embedded/engine.js';
import { EmbeddedFunctions, noFunctions } from './embedded/functions.js';
import type { Engine } from './engine.js';
import type { FunctionEngine } from './function-engine.js';
import { servedKinds } from './kubernetes/children/available-kinds.js';
import { Children } from './kubernetes/children/children.js';
import { comparedSecrets } from './kubernetes/compared-secrets.js';
import { KubernetesEngine } from './kubernetes/engine.js';
import { PodFunctions } from './kubernetes/pod-functions.js';
import { Rollout } from './kubernetes/rollout/rollout.js';
import { replicationPassword } from './postgres/replication-password.js';
import type { EndedSession } from './postgres/session-watch.js';

export interface InstalledEngine {
  engine: Engine;
  functions: FunctionEngine;
  /** The caches that the engine alone needs. */
  informers: Informer<KubeObject>[];
  projectUrl(ref: string): string;
  /** Calls `listener` with the ref of a project of which an object changed that the engine made. */
  onChange(listener: (ref: string) => void): void;
  /** To be called when this operator leads. */
  begin(): void;
  close(): Promise<void>;
}

export interface EngineWorld {
  client: KubeClient;
  caches: ProjectCaches;
  metrics: Metrics;
  events: EventRecorder;
  log: Logger;
}

export const installedEngine = async (settings: OperatorSettings, deps: EngineWorld): Promise<InstalledEngine> =>
  'site' in settings ? onCluster(settings, deps) : onMachine(settings, deps);

/** Which Secrets' values the engine compares with what is there. */
export const secretsOfEngine = (settings: OperatorSettings): ((secret: KubeObject) => boolean) =>
  'site' in settings ? comparedSecrets(settings.site) : () => false;

async function onCluster(
  { site, dataplaneUrl, functionsUrls = [] }: ClusterSettings,
  deps: EngineWorld,
): Promise<InstalledEngine> {
  const { client, caches, metrics, log } = deps;
  const { secrets, namespaces } = caches;
  const children = new Children({
    client,
    metrics,
    log,
    secrets,
    namespaces,
    optional: await servedKinds(client, log),
  });
  const rollout = new Rollout(children, site);
  const databases = new Listeners();
  metrics.rollout(() => rollout.counts());
  const engine = new KubernetesEngine({
    site,
    client,
    children,
    rollout,
    dataplaneUrl,
    replicationPassword: (host) => replicationPassword(client, host),
    onDatabaseChange: (ref) => databases.tell(ref),
    onSessionEnded: sessionReporter(deps),
    onDatabaseFull: fullReporter(deps),
    log,
  });
  const installation = new PlatformInstallation({ client, log });
  const functions =
    functionsUrls.length > 0
      ? new PodFunctions({ urls: functionsUrls, token: () => functionsToken(client), log })
      : undefined;
  return {
    engine,
    functions: functions ?? noFunctions('its manifests need the component functions (docs/cluster.md)'),
    informers: children.informers(),
    projectUrl: (ref) => projectUrlByHost(site, ref),
    onChange: (listener) => {
      children.onChange(listener);
      rollout.onTurn(listener);
      databases.add(listener);
    },
    begin: () => {
      void installation.start();
      engine.start();
      functions?.start();
    },
    close: async () => {
      rollout.close();
      await functions?.close();
      await installation.close();
      await engine.close();
    },
  };
}

function onMachine(settings: MachineSettings, deps: EngineWorld): InstalledEngine {
  const { client, log } = deps;
  const { publicUrl, projectsDomain, functionsSocket } = settings;
  const projectUrl = (ref: string) => projectUrlOf({ publicUrl, projectsDomain, site: undefined }, ref);
  const databases = new Listeners();
  const engine = new EmbeddedEngine({
    ...settings,
    projectUrl,
    replicationPassword: (host) => replicationPassword(client, host),
    onDatabaseChange: (ref) => databases.tell(ref),
    onSessionEnded: sessionReporter(deps),
    onDatabaseFull: fullReporter(deps),
    log,
  });
  const functions = functionsSocket ? new EmbeddedFunctions(functionsSocket) : undefined;
  return {
    engine,
    functions: functions ?? noFunctions('SLIPWAY_FUNCTIONS_SOCKET is not set'),
    informers: [],
    projectUrl,
    onChange: (listener) => databases.add(listener),
    // Fills up the spares before anyone asks; if Postgres isn't there yet, the first reconcile tries again.
    begin: () => {
      engine.start().catch((error: Error) => log.warn({ why: error.message }, 'engine not ready yet'));
    },
    close: async () => {
      await engine.close();
      await functions?.close();
    },
  };
}

/** Counts each session that was ended because it harmed others, and shows it on its Project. */
const sessionReporter =
  ({ caches, events, metrics }: EngineWorld) =>
  (ref: string, { reason, message }: EndedSession): void => {
    metrics.sessionEnded(reason);
    const project = caches.projects.get(ref);
    if (project) events.record(project, 'Warning', `SessionEnded${reason}`, message);
  };

const fullReporter =
  ({ caches, events }: EngineWorld) =>
  (ref: string, message: string): void => {
    const project = caches.projects.get(ref);
    if (project) events.record(project, 'Warning', 'DatabaseFull', message);
  };

/** Listeners for project changes. */
class Listeners {
  readonly #all: ((ref: string) => void)[] = [];

  add(listener: (ref: string) => void): void {
    this.#all.push(listener);
  }

  tell(ref: string): void {
    for (const listener of this.#all) listener(ref);
  }
}
