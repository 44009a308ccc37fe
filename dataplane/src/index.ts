/**
 * Data plane: serves the projects' URLs at the public port. In: requests, and projects from the Kubernetes API. Out:
 * responses of the projects' services (such as auth and rest), and of the API for all other paths. Started by main.ts.
 */
import type { Server } from 'node:http';
import { CertificateFolder } from '@slipway/certificates';
import { hasProjectHosts, projectsHostOf, projectUrlOf } from '@slipway/installation';
import { KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import { endRequests, listen, readHangs } from '@slipway/program';
import { BuildLogs, contentStoreServer, Sites } from '@slipway/sites';
import { type Logger, pino } from 'pino';
import {
  connectFunctions,
  functionsOptionsOf,
  listenerOf,
  lookupsOf,
  realtimeOptionsOf,
  storageOptionsOf,
} from './composition.js';
import { hostCheck } from './gateway/host-check.js';
import { startMetrics } from './gateway/metrics.js';
import { createPlainPort } from './gateway/plain-port.js';
import { createGateway } from './gateway/server.js';
import { createTlsServer } from './gateway/tls.js';
import { startLogsControl } from './logs/control.js';
import type { OwnerLog } from './logs/owner-log.js';
import { ProjectLogs } from './logs/project-logs.js';
import { type ProjectUids, type Registry, startRegistry } from './projects/index.js';
import { PausedProjects } from './projects/paused-projects.js';
import { createAuthService } from './services/auth/index.js';
import { createFunctionsService } from './services/functions/index.js';
import { createHosting } from './services/hosting/index.js';
import { createRealtimeService } from './services/realtime/index.js';
import { replicationPasswordFrom } from './services/realtime/replication-password.js';
import { createRestService } from './services/rest/index.js';
import type { Hosting, Services } from './services/service.js';
import { createStorageService } from './services/storage/index.js';
import type { DataplaneSettings } from './settings.js';
import { tenantOutbound } from './tenant-outbound.js';
import { createApps } from './upstreams/apps.js';
import { createDeployedServices } from './upstreams/deployed.js';
import { createMachineServices } from './upstreams/machine.js';
import { createManagement } from './upstreams/management.js';
import { createRemoteService } from './upstreams/remote.js';
import { createRemoteSites } from './upstreams/remote-sites.js';

export type { DataplaneSettings } from './settings.js';

export interface Dataplane {
  /** Address or socket path to listen at. */
  url: string;
  close(): Promise<void>;
}

export async function startDataplane(settings: DataplaneSettings): Promise<Dataplane> {
  const { installation } = settings;
  const log = pino({ level: settings.logLevel });
  const client = await KubeClient.connect(await loadKubeConfig(settings.kubeconfig));
  const projectLogs = await projectLogsOf(settings, log, () => registry);
  const services = pooledServices(settings, log, { client, registry: () => registry, ownerLog: projectLogs?.logs });
  const { closeHosted, ...hosted } = await hostedOf(settings, log);
  const machines = createMachineServices({ tenant: (ref) => registry.tenant(ref) });
  const functions = await functionsHere(settings, log, () => registry);
  if (functions) services.functions = functions;
  const registry = startRegistry({
    client,
    installation,
    log,
    sitesAlone: settings.siteStore !== undefined,
    ...listenerOf(services, log, { apps: hosted.apps, machines }),
    ...(functions && { onEnvironment: (ref: string) => functions.refresh(ref) }),
  });
  const deployed = createDeployedServices();
  const management = createManagement(settings.apiSocket, installation.publicUrl);
  const { metrics, stopMetrics } = await startMetrics(settings.metricsListen);
  const server = createGateway({
    ...reachedBy(settings),
    ...lookupsOf(registry),
    services,
    paused: new PausedProjects(settings.hangRecord ? readHangs(settings.hangRecord) : []),
    ...hosted,
    deployed,
    machines,
    management,
    metrics,
    log,
    ownerLog: projectLogs?.logs,
  });
  const around = { gateway: server, log };
  const connected = functions && settings.functions && (await connectFunctions(functions, settings.functions, around));
  const encrypted = encryptedPorts(settings, server, log);

  const close = async () => {
    encrypted.close();
    hosted.apps.closeSockets();
    // Services close their sockets, for which the server would otherwise wait.
    await Promise.all([
      endRequests(server, ...encrypted.fronts),
      services.realtime?.close(),
      machines.realtime.close(),
    ]);
    connected?.close();
    closeHosted();
    management.close();
    stopMetrics();
    await registry.close();
    await closeAll(services, deployed, machines);
    await projectLogs?.close();
    await client.close();
  };
  try {
    const url = await listen(server, settings.listen);
    await encrypted.listen();
    log.info({ url }, 'data plane started');
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Around {
  client: KubeClient;
  registry(): Registry;
  ownerLog: OwnerLog | undefined;
}

/** Keeps logs for owners, and opens their control server. Undefined: owners have no logs here. */
async function projectLogsOf({ projectLogs }: DataplaneSettings, log: Logger, registry: () => ProjectUids) {
  if (projectLogs === undefined) return undefined;
  const { folder, control: place } = projectLogs;
  const logs = new ProjectLogs({
    folder,
    uidOf: (ref) => registry().uid(ref),
    uids: () => registry().uids(),
    log,
  });
  const control = await startLogsControl(place, logs, log);
  const close = async () => {
    control.close();
    control.closeAllConnections();
    await logs.close();
  };
  return { logs, close };
}

const pooledServices = (
  settings: DataplaneSettings,
  log: Logger,
  { client, registry, ownerLog }: Around,
): Services => ({
  auth: createAuthService({ log, ownerLog, outbound: tenantOutbound(settings) }),
  rest: createRestService(),
  realtime: realtimeHere(settings, log, client, registry),
  ...storageHere(settings, log, registry),
  ...remoteFunctionsOf(settings),
});

const closeAll = (...sets: Services[]) =>
  Promise.all(sets.flatMap((services) => Object.values(services)).map((service) => service.close()));

/** Ports of HTTPS, and of plain HTTP beside it, as far as the settings have them. */
function encryptedPorts(settings: DataplaneSettings, gateway: Server, log: Logger) {
  const { tls, installation, allowedHosts = [], trustedProxies } = settings;
  if (tls === undefined) return { fronts: [], listen: async () => undefined, close: () => undefined };
  const folder = new CertificateFolder(tls.folder);
  const server = createTlsServer(gateway, { folder, files: tls.files, trustedProxies, log });
  const { publicUrl } = installation;
  const answersFor = hostCheck({ publicUrl, projectsHost: projectsHostOf(installation), allowedHosts });
  const plain = createPlainPort({ folder, publicUrl, answersFor, log });
  return {
    fronts: [server],
    listen: async () => {
      log.info({ url: await listen(server, tls.listen) }, 'https port opened');
      if (tls.plainListen !== undefined) log.info({ url: await listen(plain, tls.plainListen) }, 'http port opened');
    },
    close: () => {
      plain.close();
      plain.closeAllConnections();
    },
  };
}

/** Serves the hosted projects: files of sites, and containers of apps. */
async function hostedOf(settings: DataplaneSettings, log: Logger) {
  const sites = await sitesOf(settings, log);
  const apps = createApps();
  const closeHosted = () => {
    sites.close();
    apps.close();
  };
  return { hosting: sites.hosting, apps, closeHosted };
}

interface SitePlace {
  hosting: Hosting | undefined;
  close(): void;
}

/**
 * Serves sites whose files are on this machine or in their own pods. If builds run elsewhere, opens the store for them.
 */
async function sitesOf(settings: DataplaneSettings, log: Logger): Promise<SitePlace> {
  const { sites, siteStore, pods } = settings;
  const hosting = pods.hosting.length > 0 ? createRemoteSites(pods.hosting, log) : hostingOf(settings, log);
  if (!siteStore || sites === undefined) return { hosting, close: () => hosting?.close() };
  const store = await contentStoreServer({
    sites: new Sites(sites),
    logs: new BuildLogs(siteStore.logs),
    token: siteStore.token,
    onError: (err, ref) => log.error({ err, ref }, 'site store request failed'),
  });
  await listen(store, siteStore.listen);
  const close = () => {
    hosting?.close();
    store.close();
    store.closeAllConnections();
  };
  return { hosting, close };
}

const hostingOf = ({ sites: folder, forms }: DataplaneSettings, log: Logger) =>
  folder === undefined ? undefined : createHosting({ folder, forms, log });

/** Returns the settings of the gateway that depend on the way of requests: proxies, ingress and rate limit. */
const reachedBy = ({ installation, allowedHosts, trustedProxies, rateLimit }: DataplaneSettings) => ({
  publicUrl: installation.publicUrl,
  projectsDomain: installation.projectsDomain,
  allowedHosts: installation.site ? undefined : allowedHosts,
  trustedProxies,
  behindIngress: installation.site !== undefined,
  rateLimit,
});

const realtimeHere = ({ pods }: DataplaneSettings, log: Logger, client: KubeClient, registry: () => Registry) =>
  pods.realtime.length > 0
    ? createRemoteService({ service: 'realtime', urls: pods.realtime })
    : createRealtimeService(realtimeOptionsOf(replicationPasswordFrom(client), log, registry));

function storageHere({ storage, pods }: DataplaneSettings, log: Logger, registry: () => Registry): Services {
  if (pods.storage.length > 0) return { storage: createRemoteService({ service: 'storage', urls: pods.storage }) };
  return storage ? { storage: createStorageService(storageOptionsOf(storage, log, registry)) } : {};
}

const remoteFunctionsOf = ({ pods }: DataplaneSettings): Services =>
  pods.functions.length > 0 ? { functions: createRemoteService({ service: 'functions', urls: pods.functions }) } : {};

async function functionsHere(
  { functions, installation, reach }: DataplaneSettings,
  log: Logger,
  registry: () => Registry,
) {
  if (!functions) return undefined;
  const options = {
    publicUrl: installation.publicUrl,
    ...(hasProjectHosts(installation) && { projectUrl: (ref: string) => projectUrlOf(installation, ref) }),
    allowedNetworks: reach?.allowed,
    ...(installation.site && { blockedAddresses: installation.site.blockedAddresses }),
    log,
  };
  return createFunctionsService(functionsOptionsOf(functions, options, registry));
}
