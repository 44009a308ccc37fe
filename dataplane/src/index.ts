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
import { hostCheck } from './gateway/host-check.js';
import { startMetrics } from './gateway/metrics.js';
import { createPlainPort } from './gateway/plain-port.js';
import { createGateway } from './gateway/server.js';
import { createTlsServer } from './gateway/tls.js';
import { comesFrom } from './http/client-address.js';
import { serviceDown } from './http/refusals.js';
import { type Registry, type RegistryOptions, startRegistry } from './projects/index.js';
import { PausedProjects } from './projects/paused-projects.js';
import { createAuthService } from './services/auth/index.js';
import { startFunctionsControl } from './services/functions/control.js';
import { createFunctionsService } from './services/functions/index.js';
import { LIMITS as FUNCTION_LIMITS } from './services/functions/limits.js';
import { functionsAddress } from './services/functions/network-address.js';
import { createHosting } from './services/hosting/index.js';
import { createRealtimeService, ReaderShares } from './services/realtime/index.js';
import { replicationPasswordFrom } from './services/realtime/replication-password.js';
import { createRestService } from './services/rest/index.js';
import type { Apps, Hosting, Service, Services } from './services/service.js';
import { createStorageService } from './services/storage/index.js';
import type { DataplaneSettings } from './settings.js';
import { tenantOutbound } from './tenant-outbound.js';
import { createApps } from './upstreams/apps.js';
import { createDeployedServices } from './upstreams/deployed.js';
import { createManagement } from './upstreams/management.js';
import { proxyRequest } from './upstreams/proxy-request.js';
import { createRemoteService } from './upstreams/remote.js';
import { createRemoteSites } from './upstreams/remote-sites.js';
import type { UpstreamLimits } from './upstreams/upstream-client.js';

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
  const services: Services = {
    auth: createAuthService({ log, outbound: tenantOutbound(settings) }),
    rest: createRestService(),
    realtime: realtimeOf(settings, log, client, () => registry),
    ...storageOf(settings, log, () => registry),
    ...remoteFunctionsOf(settings),
  };
  const { closeHosted, ...hosted } = await hostedOf(settings, log);
  const functions = await functionsOf(settings, log, () => registry);
  if (functions) services.functions = functions;
  const registry = startRegistry({
    client,
    installation,
    log,
    sitesAlone: settings.siteStore !== undefined,
    ...telling(services, hosted.apps, log),
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
    management,
    metrics,
    log,
  });
  const outwards = forwardCalls(settings, functions, server);
  const control =
    functions && settings.functions && (await startFunctionsControl(settings.functions.control, functions, log));

  const encrypted = encryptedPorts(settings, server, log);

  const close = async () => {
    encrypted.close();
    hosted.apps.closeSockets();
    // Services close their sockets, for which the server would otherwise wait.
    await Promise.all([endRequests(server, ...encrypted.fronts), services.realtime?.close()]);
    control?.close();
    control?.closeAllConnections();
    outwards?.close();
    closeHosted();
    management.close();
    stopMetrics();
    await registry.close();
    await Promise.all([...Object.values(services), ...Object.values(deployed)].map((service) => service.close()));
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
async function sitesOf({ sites, siteStore, pods }: DataplaneSettings, log: Logger): Promise<SitePlace> {
  const hosting = pods.hosting.length > 0 ? createRemoteSites(pods.hosting, log) : hostingOf(sites, log);
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

const hostingOf = (folder: string | undefined, log: Logger) =>
  folder === undefined ? undefined : createHosting({ folder, log });

/** Returns the settings of the gateway that depend on the way of requests: proxies, ingress and rate limit. */
const reachedBy = ({ installation, allowedHosts, trustedProxies, rateLimit }: DataplaneSettings) => ({
  publicUrl: installation.publicUrl,
  projectsDomain: installation.projectsDomain,
  allowedHosts: installation.site ? undefined : allowedHosts,
  trustedProxies,
  behindIngress: installation.site !== undefined,
  rateLimit,
});

const lookupsOf = (registry: Registry) => ({
  tenant: registry.tenant,
  linkedTo: registry.linkedTo,
  complete: () => registry.complete,
});

const telling = (services: Services, apps: Apps, log: Logger): Pick<RegistryOptions, 'onChange' | 'onForget'> => ({
  onChange: (tenant) => {
    for (const service of Object.values(services)) service.change?.(tenant);
  },
  onForget: (ref) => {
    apps.forget(ref);
    for (const service of Object.values(services)) {
      service.forget(ref).catch((error: unknown) => log.error({ err: error, ref }, 'service shutdown timed out'));
    }
  },
});

/** Starts the registry after the services, which it notifies of deleted projects. */
function storageOf({ storage, pods }: DataplaneSettings, log: Logger, registry: () => Registry): Services {
  if (pods.storage.length > 0) return { storage: createRemoteService({ service: 'storage', urls: pods.storage }) };
  if (!storage) return {};
  const projects = { tenant: (ref: string) => registry().backend(ref), complete: () => registry().complete };
  return { storage: createStorageService({ ...storage, projects, log }) };
}

const realtimeOf = ({ pods }: DataplaneSettings, log: Logger, client: KubeClient, registry: () => Registry): Service =>
  pods.realtime.length > 0
    ? createRemoteService({ service: 'realtime', urls: pods.realtime })
    : createRealtimeService({
        log,
        replication: replicationPasswordFrom(client),
        shares: new ReaderShares((ref) => registry().owner(ref)),
      });

/** Leads requests of functions for the public URL to the gateway, this one or that of other pods. */
function forwardCalls(
  { functions: settings }: DataplaneSettings,
  functions: Awaited<ReturnType<typeof functionsOf>>,
  gateway: Server,
) {
  const outwards = settings?.gatewayUrl === undefined ? undefined : gatewayAt(settings.gatewayUrl);
  functions?.onGatewayRequest((incoming, outgoing, ref) => {
    const address = functionsAddress(ref);
    comesFrom(incoming, address);
    if (outwards) outwards.forward(incoming, outgoing, { of: ref, address });
    else gateway.emit('request', incoming, outgoing);
  });
  return outwards;
}

const remoteFunctionsOf = ({ pods }: DataplaneSettings): Services =>
  pods.functions.length > 0 ? { functions: createRemoteService({ service: 'functions', urls: pods.functions }) } : {};

/**
 * Forwards requests to the gateway for function pods. A function may wait for another as long as a caller for it.
 */
function gatewayAt(url: string) {
  const { hostname: host, port } = new URL(url);
  const to = { host, port: Number(port || 80) };
  return proxyRequest({ name: 'gateway', to, headers: {}, unreachable: serviceDown('gateway'), limits: OUTWARDS });
}

/**
 * Limits for requests of functions to the public URL. The pool has a connection for each isolate, so that no project
 * waits for another.
 */
const OUTWARDS: Partial<UpstreamLimits> = {
  atOncePerService: 128,
  atOnce: 128 * FUNCTION_LIMITS.isolates,
  bodyBytes: Number.POSITIVE_INFINITY,
  stillMilliseconds: 420_000,
};

async function functionsOf(
  { functions, installation, reach }: DataplaneSettings,
  log: Logger,
  registry: () => Registry,
) {
  if (!functions) return undefined;
  return createFunctionsService({
    home: functions.home,
    publicUrl: installation.publicUrl,
    ...(hasProjectHosts(installation) && { projectUrl: (ref) => projectUrlOf(installation, ref) }),
    allowedNetworks: reach?.allowed,
    authorities: functions.authorities,
    ...(installation.site && { blockedAddresses: installation.site.blockedAddresses }),
    tenant: (ref) => registry().backend(ref),
    environment: (ref) => registry().environment(ref),
    owner: (ref) => registry().owner(ref),
    log,
  });
}
