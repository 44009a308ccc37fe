/**
 * What answers at a project's URL, and the port for people. In: requests; projects, from the Kubernetes API. Out: answers of
 * the projects' services (auth, rest), and of the API for all else. Started by its own main.ts.
 */
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { type Logger, pino } from 'pino';
import { createAuthService } from './auth/index.js';
import { startFunctionsControl } from './functions/control.js';
import { createFunctionsService } from './functions/index.js';
import { createDeployedServices } from './gateway/deployed.js';
import { createManagement } from './gateway/management.js';
import { startMetrics } from './gateway/metrics.js';
import { createGateway } from './gateway/server.js';
import { createRealtimeService } from './realtime/index.js';
import { replicationPasswordFrom } from './realtime/replication-password.js';
import { type Registry, type RegistryOptions, startRegistry } from './registry/index.js';
import { createRestService } from './rest/index.js';
import type { Services } from './service.js';
import type { DataplaneSettings } from './settings.js';
import { createStorageService } from './storage/index.js';

export type { DataplaneSettings } from './settings.js';

export interface Dataplane {
  /** Where it listens: an address, or the path of a socket. */
  url: string;
  close(): Promise<void>;
}

/** Requests under way when it is told to stop may take this long to end. */
const PATIENCE_MS = 5_000;

export async function startDataplane(settings: DataplaneSettings): Promise<Dataplane> {
  const { installation } = settings;
  const log = pino({ level: settings.logLevel });
  const kubeConfig = kubeConfigOf(settings);
  const services: Services = {
    auth: createAuthService({ log }),
    rest: createRestService(),
    realtime: createRealtimeService({ log, replication: replicationPasswordFrom(kubeConfig) }),
    ...storageOf(settings, log, () => registry),
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

  functions?.onGatewayRequest((incoming, outgoing) => server.emit('request', incoming, outgoing));
  const control =
    functions &&
    settings.functions &&
    (await startFunctionsControl(settings.functions.socket, functions.deployer, log));

  const close = async () => {
    await endRequests(server);
    control?.close();
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
      service.forget(ref).catch((error: unknown) => log.error({ err: error, ref }, 'a service did not let go'));
    }
  },
});

/** The registry comes after the services, which it tells of projects that went. */
function storageOf({ storage }: DataplaneSettings, log: Logger, registry: () => Registry): Services {
  if (!storage) return {};
  const projects = { tenant: (ref: string) => registry().tenant(ref), complete: () => registry().complete };
  return { storage: createStorageService({ ...storage, projects, log }) };
}

async function functionsOf({ functions, installation }: DataplaneSettings, log: Logger, registry: () => Registry) {
  if (!functions) return undefined;
  return createFunctionsService({
    home: functions.home,
    publicUrl: installation.publicUrl,
    tenant: (ref) => registry().tenant(ref),
    environment: (ref) => registry().environment(ref),
    log,
  });
}

async function listen(server: Server, at: string): Promise<string> {
  // A socket's file outlives the process that made it.
  if (at.startsWith('/')) await rm(at, { force: true });
  const colon = at.lastIndexOf(':');
  const options = at.startsWith('/')
    ? { path: at }
    : { host: at.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(at.slice(colon + 1)) };
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address() as AddressInfo | string;
  if (typeof address === 'string') return address;
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

async function endRequests(server: Server): Promise<void> {
  if (!server.listening) return;
  const ended = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const patience = setTimeout(() => server.closeAllConnections(), PATIENCE_MS);
  await ended;
  clearTimeout(patience);
}
