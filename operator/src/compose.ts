/**
 * The capabilities of an installation: those of a cluster if the settings have a site, else those of one machine. In:
 * the operator's settings and caches. Out: the capabilities, the objects that they watch beside the project's own, and
 * the URL of each project.
 */

import { rm } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { CAPABILITIES, type Capability, hasOwnMachine, typeOf } from '@slipway/crds';
import {
  hasSites,
  lacksOf,
  type ProjectPlaces,
  projectUrlByHost,
  projectUrlOf,
  type Site,
  storeOriginOf,
  tenantReach,
} from '@slipway/installation';
import type { Informer, KubeClient, KubeObject } from '@slipway/kubernetes';
import { NOT_PUBLIC } from '@slipway/program';
import { AppLogs, ContentStoreClient } from '@slipway/sites';
import type { Logger } from 'pino';
import type { Capabilities, FunctionEngine, Isolation } from './capabilities/index.js';
import type { ProjectCaches } from './controllers/project/controller.js';
import { HostCheck } from './controllers/project/host-check.js';
import type { CloudMachines } from './engines/cloud/machines/cloud-machines.js';
import { ContainerApps } from './engines/containers/container-apps.js';
import type { LinkedPlace } from './engines/containers/machine-routing.js';
import { ApiRoute } from './engines/kubernetes/api-route.js';
import { KubernetesBuilds } from './engines/kubernetes/builds/builds.js';
import { servedKinds } from './engines/kubernetes/children/available-kinds.js';
import { Children } from './engines/kubernetes/children/children.js';
import { ClusterHosting } from './engines/kubernetes/cluster-hosting.js';
import { ClusterServices } from './engines/kubernetes/cluster-services.js';
import { comparedSecrets } from './engines/kubernetes/compared-secrets.js';
import { dataplaneOrigins } from './engines/kubernetes/dataplane-origins.js';
import { namespaceIsolation } from './engines/kubernetes/isolation/isolation.js';
import { PodFunctions } from './engines/kubernetes/pod-functions.js';
import { PostgresClusters } from './engines/kubernetes/postgres-cluster/clusters.js';
import { PullSecrets } from './engines/kubernetes/pull-secrets.js';
import { Rollout } from './engines/kubernetes/rollout/rollout.js';
import { AppOutputs } from './engines/machine/app-outputs.js';
import { MachineBuilds } from './engines/machine/builds.js';
import { MachineCertificates } from './engines/machine/certificates.js';
import { MachineDatabases } from './engines/machine/databases.js';
import { EmbeddedFunctions, noFunctions } from './engines/machine/functions.js';
import { MachineHosting } from './engines/machine/hosting.js';
import { MachineServices } from './engines/machine/services.js';
import { SiteOutputs } from './engines/machine/site-outputs.js';
import { noBuilds } from './engines/no-builds.js';
import { PauseWatch } from './engines/pause-watch.js';
import { replicationPassword } from './engines/postgres/replication-password.js';
import type { EndedSession } from './engines/postgres/session-watch.js';
import { PlatformInstallation } from './installation/installation.js';
import { functionsToken, hostingToken, machineLabel } from './installation/secrets.js';
import type { EventRecorder } from './runtime/events.js';
import { type Lookup, systemLookup } from './runtime/host-addresses.js';
import type { Metrics } from './runtime/metrics.js';
import type {
  BuildsSettings,
  ClusterSettings,
  MachineSettings,
  MachinesSettings,
  OperatorSettings,
} from './settings.js';

export interface Installed {
  capabilities: Capabilities;
  functions: FunctionEngine;
  /** Undefined on a cluster. */
  hostCheck?: HostCheck | undefined;
  /** The caches that only the capabilities need. */
  informers: Informer<KubeObject>[];
  projectUrl(ref: string): string;
  /** Calls `listener` with the ref of each project whose object changed that the engine made. */
  onChange(listener: (ref: string) => void): void;
  /** Starts the background work. Call it when this operator leads. */
  begin(): void;
  close(): Promise<void>;
}

export interface EngineWorld {
  client: KubeClient;
  caches: ProjectCaches;
  metrics: Metrics;
  events: EventRecorder;
  log: Logger;
  /** Undefined: the resolver of the system. */
  lookup?: Lookup | undefined;
}

export async function install(settings: OperatorSettings, deps: EngineWorld): Promise<Installed> {
  const installed = 'site' in settings ? await onCluster(settings, deps) : await onMachine(settings, deps);
  // Other programs reject types by that list, without knowing the capabilities of this program. So the list must match
  // the capabilities.
  const places = placesOf(settings);
  const made: Partial<Record<Capability, unknown>> = installed.capabilities;
  const differs = CAPABILITIES.filter((name) => (lacksOf(places, name) === undefined) !== (made[name] !== undefined));
  if (differs.length > 0) throw new Error(`availability.ts and the capabilities differ in ${differs.join(', ')}`);
  const hostCheck = hostCheckOf(settings, deps);
  return {
    ...installed,
    hostCheck,
    onChange: (listener) => {
      installed.onChange(listener);
      hostCheck?.onChange(listener);
    },
    close: async () => {
      hostCheck?.close();
      await installed.close();
    },
  };
}

/** Undefined on a cluster, which has no setting that allows auth further networks. */
const hostCheckOf = (settings: OperatorSettings, { log, lookup = systemLookup }: EngineWorld): HostCheck | undefined =>
  'site' in settings
    ? undefined
    : new HostCheck({ reach: tenantReach({ installation: settings, reach: settings.reach }), lookup, log });

/** Returns the addresses that decide which types are available. */
export const placesOf = (settings: OperatorSettings): ProjectPlaces => ('site' in settings ? settings.site : settings);

/** Returns a predicate for the Secrets whose values the engine compares with the present ones. */
export const secretsOfEngine = (settings: OperatorSettings): ((secret: KubeObject) => boolean) =>
  'site' in settings ? comparedSecrets(settings.site) : () => false;

async function onCluster(
  { site, dataplaneUrl, functionsUrls = [], hostingUrls = [] }: ClusterSettings,
  deps: EngineWorld,
): Promise<Installed> {
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
  const listeners = new Listeners();
  const pauses = pauseWatch(deps, listeners, () => dataplaneOrigins(client, dataplaneUrl));
  metrics.rollout(() => rollout.counts());
  const databases = new PostgresClusters({
    site,
    client,
    children,
    replicationPassword: (host) => replicationPassword(client, host),
    onChange: (ref) => listeners.notify(ref),
    onSessionEnded: sessionReporter(deps),
    onDatabaseFull: fullReporter(deps, listeners),
    log,
  });
  const services = new ClusterServices({ site, client, children, rollout, dataplaneUrl, pauses });
  const isolation = namespaceIsolation(children, site, new PullSecrets(client, children, site.images.pullSecrets));
  const hosting = hasSites(site) ? new ClusterHosting(children, site, dataplaneUrl) : undefined;
  const apiRoute = new ApiRoute(children, site, log);
  const installation = new PlatformInstallation({ client, log });
  const functions =
    functionsUrls.length > 0
      ? new PodFunctions({ urls: functionsUrls, token: () => functionsToken(client), log })
      : undefined;
  const builds = hostingUrls.length > 0 ? clusterBuilds(site, hostingUrls, deps) : undefined;
  return {
    capabilities: { isolation, databases, services, hosting, builds: builds ?? noBuilds(NO_HOSTING) },
    functions: functions ?? noFunctions('its manifests need the component functions (docs/cluster.md)'),
    informers: [...children.informers(), ...(builds?.informers() ?? [])],
    projectUrl: (ref) => projectUrlByHost(site, ref),
    onChange: (listener) => {
      children.onChange(listener);
      rollout.onTurn(listener);
      listeners.add(listener);
    },
    begin: () => {
      void installation.start();
      databases.start();
      apiRoute.start();
      pauses.start();
      functions?.start();
    },
    close: async () => {
      rollout.close();
      await pauses.close();
      await functions?.close();
      await installation.close();
      await apiRoute.close();
      await databases.close();
      await services.close();
      await hosting?.close();
      await builds?.close();
    },
  };
}

const NO_HOSTING = 'its manifests need the component hosting (docs/cluster.md)';

function clusterBuilds(site: Site, urls: readonly string[], { client, metrics, log }: EngineWorld): KubernetesBuilds {
  const storeToken = () => hostingToken(client);
  const store = new ContentStoreClient({ originOf: (ref) => storeOriginOf(ref, urls), token: storeToken });
  return new KubernetesBuilds({ client, store, storeToken, site, metrics, log });
}

async function onMachine(settings: MachineSettings, deps: EngineWorld): Promise<Installed> {
  const { client, log } = deps;
  const { publicUrl, projectsDomain, functionsSocket } = settings;
  const projectUrl = (ref: string) => projectUrlOf({ publicUrl, projectsDomain, site: undefined }, ref);
  const listeners = new Listeners();
  const pauses = pauseWatch(deps, listeners, async () => [settings.dataplaneUrl]);
  const databases = new MachineDatabases({
    ...settings,
    replicationPassword: (host) => replicationPassword(client, host),
    onDatabaseChange: (ref) => listeners.notify(ref),
    onSessionEnded: sessionReporter(deps),
    onDatabaseFull: fullReporter(deps, listeners),
    log,
  });
  const { certificates: acme } = settings;
  const certificates = acme && new MachineCertificates({ ...acme, ...machineProjects(settings, deps, listeners) });
  const certificatesOf = (ref: string) => certificates?.partOf(ref) ?? [];
  const services = new MachineServices({ ...settings, projectUrl, pauses, certificatesOf });
  const siteUrl = (ref: string) => projectUrlByHost(settings, ref);
  const hosting = hasSites(settings) ? new MachineHosting(settings.dataplaneUrl, siteUrl, certificatesOf) : undefined;
  const apps = appsOf(settings, log);
  const builds = settings.builds && machineBuilds(settings.builds, { apps, siteUrl, settings, deps });
  const machines = settings.machines && (await cloudMachines(settings.machines, deps));
  const functions = functionsSocket ? new EmbeddedFunctions(functionsSocket) : undefined;
  const functionEngine = functions ?? noFunctions('SLIPWAY_FUNCTIONS_SOCKET is not set');
  return {
    capabilities: {
      isolation: sharedMachine,
      databases,
      services,
      hosting,
      builds: builds ?? noBuilds(NO_FOLDERS),
      apps,
      machines,
    },
    functions: machines ? functionsByType(functionEngine, machines.functions, deps) : functionEngine,
    informers: [],
    projectUrl,
    onChange: (listener) => {
      listeners.add(listener);
      apps?.onChange(listener);
      machines?.onChange(listener);
    },
    // Makes the spare databases before the first request. If Postgres is not available yet, the first reconcile tries
    // again.
    begin: () => {
      pauses.start();
      builds?.begin();
      machines?.begin();
      certificates?.begin().catch((error: Error) => log.error({ err: error }, 'certificates not started'));
      databases.start().catch((error: Error) => log.warn({ why: error.message }, 'Postgres not ready yet'));
    },
    close: async () => {
      await pauses.close();
      await certificates?.close();
      await databases.close();
      await services.close();
      await hosting?.close();
      await builds?.close();
      await apps?.close();
      await machines?.close();
      await functions?.close();
    },
  };
}

/** Undefined: this machine has no container engine. */
function appsOf(settings: MachineSettings, log: Logger): ContainerApps | undefined {
  const { containerEngine, appsFolder, builds } = settings;
  if (!containerEngine || !('form' in containerEngine) || appsFolder === undefined || !builds) return undefined;
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  const addresses = own.filter(({ family }) => family === 'IPv4').map(({ address }) => `${address}/32`);
  return new ContainerApps({
    folder: appsFolder,
    form: containerEngine.form,
    closed: [...NOT_PUBLIC, ...addresses],
    // This machine stays closed, with all ports of the platform.
    opened: { networks: builds.reach.allowed, except: addresses },
    linked: linkedPlaces(settings),
    logs: new AppLogs(path.join(builds.folder, 'app-logs')),
    log,
  });
}

/** Undefined: the data plane or Postgres has no IPv4 address. */
function linkedPlaces({ dataplaneUrl, appsDatabase = '' }: MachineSettings) {
  const [services, database] = [placeOf(new URL(dataplaneUrl).host), placeOf(appsDatabase)];
  return services && database && { services, database };
}

function placeOf(text: string): LinkedPlace | undefined {
  const [, host = '', port] = /^([\d.]+):(\d+)$/.exec(text) ?? [];
  return isIPv4(host) ? { host, port: Number(port) } : undefined;
}

interface BuildsWorld {
  apps: ContainerApps | undefined;
  siteUrl(site: string): string;
  settings: MachineSettings;
  deps: EngineWorld;
}

function machineBuilds(own: BuildsSettings, { apps, siteUrl, settings, deps }: BuildsWorld): MachineBuilds {
  const { log, caches } = deps;
  const { folder, sitesFolder, reach, certificates, atOnce } = own;
  const shared = { reach, certificates, siteUrl, log };
  const sites = new SiteOutputs({ ...shared, sitesFolder, cacheFolder: path.join(folder, 'cache') });
  const images = apps && new AppOutputs({ ...shared, apps, onChange: (ref) => builds.changed(ref) });
  const isApp = (ref: string) => {
    const project = caches.projects.get(ref);
    return project !== undefined && typeOf(project) === 'app';
  };
  const builds = new MachineBuilds({
    folder,
    atOnce,
    reach,
    siteUrl,
    log,
    apiUrl: settings.dataplaneUrl,
    outputsOf: (ref) => (images && isApp(ref) ? images : sites),
    allOutputs: images ? [sites, images] : [sites],
  });
  return builds;
}

/** Loads the engine of machines, which most installations do not have. */
async function cloudMachines(own: MachinesSettings, deps: EngineWorld): Promise<CloudMachines> {
  const { client, caches, metrics, log } = deps;
  const [{ CloudMachines }, { HETZNER_URL, hetznerProvider }] = await Promise.all([
    import('./engines/cloud/machines/cloud-machines.js'),
    import('./engines/cloud/hetzner/provider.js'),
  ]);
  await rm(own.sockets, { recursive: true, force: true });
  return new CloudMachines({
    provider: hetznerProvider({ url: own.url ?? HETZNER_URL, tokenFile: own.tokenFile }),
    client,
    installation: own.label ?? (await machineLabel(client)),
    packs: own.folder,
    snapshot: own.snapshot,
    sockets: own.sockets,
    replicationPassword: (host) => replicationPassword(client, host),
    isProject: (uid) => caches.projects.list().some(({ metadata }) => metadata.uid === uid),
    maxMachines: own.maxMachines,
    deletesOrphans: own.deletesOrphans,
    onOrphans: metrics.orphanedMachines(),
    log,
  });
}

/** Functions of a project with a machine of its own run there. */
const functionsByType = (here: FunctionEngine, there: FunctionEngine, { caches }: EngineWorld): FunctionEngine => {
  const engineOf = (ref: string) => {
    const project = caches.projects.get(ref);
    return project && hasOwnMachine(typeOf(project)) ? there : here;
  };
  return {
    ensureFunction: (request) => engineOf(request.ref).ensureFunction(request),
    removeFunction: (ref, name) => engineOf(ref).removeFunction(ref, name),
  };
};

const machineProjects = (places: MachineSettings, { caches, log }: EngineWorld, listeners: Listeners) => ({
  places,
  projects: () => caches.projects.list(),
  project: (ref: string) => caches.projects.get(ref),
  onChange: (ref: string) => listeners.notify(ref),
  log,
});

const NO_FOLDERS = 'it has no folders for builds and sites (SLIPWAY_BUILDS_DIR, SLIPWAY_SITES_DIR)';

/**
 * No isolation is set up: all projects share one machine. Postgres and the data plane keep each project to its own
 * data.
 */
const sharedMachine: Isolation = { ensure: async () => ({ state: 'ready', value: undefined }) };

const pauseWatch = ({ caches, log }: EngineWorld, listeners: Listeners, origins: () => Promise<readonly string[]>) =>
  new PauseWatch({
    origins,
    refs: () => caches.projects.list().map(({ metadata }) => metadata.name),
    onChange: (ref) => listeners.notify(ref),
    log,
  });

/** Counts each session that was ended because it harmed other tenants, and records an Event on its Project. */
const sessionReporter =
  ({ caches, events, metrics }: EngineWorld) =>
  (ref: string, { reason, message }: EndedSession): void => {
    metrics.sessionEnded(reason);
    const project = caches.projects.get(ref);
    if (project) events.record(project, 'Warning', `SessionEnded${reason}`, message);
  };

const fullReporter =
  ({ caches, events }: EngineWorld, changed: Listeners) =>
  (ref: string, message: string): void => {
    changed.notify(ref);
    const project = caches.projects.get(ref);
    if (project) events.record(project, 'Warning', 'DatabaseFull', message);
  };

/** Listeners for project changes. */
class Listeners {
  readonly #all: ((ref: string) => void)[] = [];

  add(listener: (ref: string) => void): void {
    this.#all.push(listener);
  }

  notify(ref: string): void {
    for (const listener of this.#all) listener(ref);
  }
}
