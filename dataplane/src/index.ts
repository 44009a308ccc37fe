/**
 * The data plane: serves projects' URLs, and the port for people. In: requests; projects, from the Kubernetes API. Out:
 * responses of the projects' services (auth, rest), and of the API for all other paths. Started by its own main.ts.
 */
import { KubeConfig } from '@kubernetes/client-node';
import { hasProjectHosts, projectUrlOf } from '@slipway/crds';
import { type Logger, pino } from 'pino';
import { createAuthService } from './auth/index.js';
import { anywhere, publicOnly } from './auth/outbound.js';
import { startFunctionsControl } from './functions/control.js';
import { createFunctionsService } from './functions/index.js';
import { LIMITS as FUNCTION_LIMITS } from './functions/limits.js';
import { comesFrom } from './gateway/client-address.js';
import { createDeployedServices } from './gateway/deployed.js';
import { createManagement } from './gateway/management.js';
import { startMetrics } from './gateway/metrics.js';
import { proxyRequest } from './gateway/proxy-request.js';
import { serviceDown } from './gateway/refusals.js';
import { createRemoteService } from './gateway/remote.js';
import { createGateway } from './gateway/server.js';
import type { UpstreamLimits } from './gateway/upstream-client.js';
import { endRequests, listen } from './listening.js';
import { functionsAddress } from './network-address.js';
import { createRealtimeService, ReaderShares } from './realtime/index.js';
import { replicationPasswordFrom } from './realtime/replication-password.js';
import { type Registry, type RegistryOptions, startRegistry } from './registry/index.js';
import { createRestService } from './rest/index.js';
import type { Service, Services } from './service.js';
import type { DataplaneSettings } from './settings.js';
import { createStorageService } from './storage/index.js';

export type { DataplaneSettings } from './settings.js';

export interface Dataplane {
  /** Where it listens: an address, or the path of a socket. */
  url: string;
  close(): Promise<void>;
}

export async function startDataplane(settings: DataplaneSettings): Promise<Dataplane> {
  const { installation } = settings;
  const log = pino({ level: settings.logLevel });
  const kubeConfig = kubeConfigOf(settings);
  const services: Services = {
    auth: authOf(settings, log),
    rest: createRestService(),
    realtime: realtimeOf(settings, log, kubeConfig, () => registry),
    ...storageOf(settings, log, () => registry),
    ...remoteFunctionsOf(settings),
  };
  const functions = await functionsOf(settings, log, () => registry);
  if (functions) services.functions = functions;
  const registry = startRegistry({
    kubeConfig,
    installation,
    log,
    ...telling(services, log),
    ...(functions && { onEnvironment: (ref: string) => functions.refresh(ref) }),
  });
  const deployed = createDeployedServices();
  const management = createManagement(settings.apiSocket, installation.publicUrl);
  const { metrics, stopMetrics } = await startMetrics(settings.metricsListen);
  const server = createGateway({
    publicUrl: installation.publicUrl,
    projectsDomain: installation.projectsDomain,
    allowedHosts: installation.site ? undefined : settings.allowedHosts,
    trustedProxies: settings.trustedProxies,
    tenant: registry.tenant,
    complete: () => registry.complete,
    services,
    deployed,
    behindIngress: installation.site !== undefined,
    rateLimit: settings.rateLimit,
    management,
    metrics,
    log,
  });

  const outwards = settings.functions?.gatewayUrl === undefined ? undefined : gatewayAt(settings.functions.gatewayUrl);
  functions?.onGatewayRequest((incoming, outgoing, ref) => {
    const address = functionsAddress(ref);
    comesFrom(incoming, address);
    if (outwards) outwards.forward(incoming, outgoing, { of: ref, address });
    else server.emit('request', incoming, outgoing);
  });
  const control =
    functions && settings.functions && (await startFunctionsControl(settings.functions.control, functions, log));

  const close = async () => {
    // Sockets end when their service does: the server would wait for them.
    await Promise.all([endRequests(server), services.realtime?.close()]);
    control?.close();
    control?.closeAllConnections();
    outwards?.close();
    management.close();
    stopMetrics();
    await registry.close();
    await Promise.all([...Object.values(services), ...Object.values(deployed)].map((service) => service.close()));
  };
  try {
    const url = await listen(server, settings.listen);
    log.info({ url }, 'the data plane serves');
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function kubeConfigOf({ kubeconfig }: DataplaneSettings): KubeConfig {
  const config = new KubeConfig();
  if (kubeconfig === undefined) config.loadFromCluster();
  else config.loadFromFile(kubeconfig);
  return config;
}

const telling = (services: Services, log: Logger): Pick<RegistryOptions, 'onChange' | 'onForget'> => ({
  onChange: (tenant) => {
    for (const service of Object.values(services)) service.change?.(tenant);
  },
  onForget: (ref) => {
    for (const service of Object.values(services)) {
      service.forget(ref).catch((error: unknown) => log.error({ err: error, ref }, 'service shutdown timed out'));
    }
  },
});

/** The registry comes after the services, which it tells of projects that went. */
function storageOf({ storage, pods }: DataplaneSettings, log: Logger, registry: () => Registry): Services {
  if (pods.storage.length > 0) return { storage: createRemoteService({ service: 'storage', urls: pods.storage }) };
  if (!storage) return {};
  const projects = { tenant: (ref: string) => registry().tenant(ref), complete: () => registry().complete };
  return { storage: createStorageService({ ...storage, projects, log }) };
}

/**
 * On one machine, whoever may write a project's settings is trusted with addresses; on a cluster they would be ours.
 */
const authOf = ({ installation: { site } }: DataplaneSettings, log: Logger): Service =>
  createAuthService({ log, outbound: site ? publicOnly(site.blockedAddresses) : anywhere });

const realtimeOf = (
  { pods }: DataplaneSettings,
  log: Logger,
  kubeConfig: KubeConfig,
  registry: () => Registry,
): Service =>
  pods.realtime.length > 0
    ? createRemoteService({ service: 'realtime', urls: pods.realtime })
    : createRealtimeService({
        log,
        replication: replicationPasswordFrom(kubeConfig),
        shares: new ReaderShares((ref) => registry().owner(ref)),
      });

const remoteFunctionsOf = ({ pods }: DataplaneSettings): Services =>
  pods.functions.length > 0 ? { functions: createRemoteService({ service: 'functions', urls: pods.functions }) } : {};

/**
 * Forwards requests to the gateway for pods that run functions. A function may wait as long for another as a caller may
 * for it.
 */
function gatewayAt(url: string) {
  const { hostname: host, port } = new URL(url);
  const to = { host, port: Number(port || 80) };
  return proxyRequest({ name: 'gateway', to, headers: {}, unreachable: serviceDown('gateway'), limits: OUTWARDS });
}

/** In all as many as isolates can have that each are of another project, so that none waits for others. */
const OUTWARDS: Partial<UpstreamLimits> = {
  atOncePerService: 128,
  atOnce: 128 * FUNCTION_LIMITS.isolates,
  bodyBytes: Number.POSITIVE_INFINITY,
  stillMilliseconds: 420_000,
};

async function functionsOf({ functions, installation }: DataplaneSettings, log: Logger, registry: () => Registry) {
  if (!functions) return undefined;
  return createFunctionsService({
    home: functions.home,
    publicUrl: installation.publicUrl,
    ...(hasProjectHosts(installation) && { projectUrl: (ref) => projectUrlOf(installation, ref) }),
    ...(installation.site && { blockedAddresses: installation.site.blockedAddresses }),
    tenant: (ref) => registry().tenant(ref),
    environment: (ref) => registry().environment(ref),
    owner: (ref) => registry().owner(ref),
    log,
  });
}
