/**
 * Parts that both programs of the data plane compose: the one that serves the projects of an installation, and the one
 * that serves one service of a project on its own machine. In: settings and a registry. Out: options of services, and
 * their connections to the registry and to the gateway. It loads no service, because each has packages of its own.
 */
import type { Server } from 'node:http';
import type { Logger } from 'pino';
import type { GatewayServerOptions } from './gateway/server.js';
import { comesFrom } from './http/client-address.js';
import { serviceDown } from './http/refusals.js';
import type { Registry, TenantListener } from './projects/index.js';
import { startFunctionsControl } from './services/functions/control.js';
import type { FunctionsOptions, FunctionsService } from './services/functions/index.js';
import { LIMITS as FUNCTION_LIMITS } from './services/functions/limits.js';
import { functionsAddress } from './services/functions/network-address.js';
import { ReaderShares } from './services/realtime/changes/reader-shares.js';
import type { RealtimeOptions, ReplicationLogin } from './services/realtime/index.js';
import type { Apps, Services } from './services/service.js';
import type { StorageOptions } from './services/storage/index.js';
import type { FunctionsSettings, StorageSettings } from './settings.js';
import { proxyRequest } from './upstreams/proxy-request.js';
import type { UpstreamLimits } from './upstreams/upstream-client.js';

/** Returns the registry, which starts after the services, because it notifies them of changes. */
type Later = () => Registry;

export const lookupsOf = (registry: Registry): Pick<GatewayServerOptions, 'tenant' | 'linkedTo' | 'complete'> => ({
  tenant: registry.tenant,
  linkedTo: registry.linkedTo,
  complete: () => registry.complete,
});

/** Upstreams of the projects that no service of this program serves. */
interface Elsewhere {
  apps?: Apps;
  machines?: Services;
}

/**
 * Passes changes of projects to all services, and to the upstreams of apps and machines. A change of a project on its
 * own machine goes to no service, because the login of its database is of use only there.
 */
export const listenerOf = (
  services: Services,
  log: Logger,
  { apps, machines = {} }: Elsewhere = {},
): Pick<TenantListener, 'onChange' | 'onForget'> => ({
  onChange: (tenant) => {
    const concerned = tenant.upstream === 'machine' ? machines : services;
    for (const service of Object.values(concerned)) service.change?.(tenant);
  },
  onForget: (ref) => {
    apps?.forget(ref);
    for (const service of [...Object.values(services), ...Object.values(machines)]) {
      service.forget(ref).catch((error: unknown) => log.error({ err: error, ref }, 'service shutdown timed out'));
    }
  },
});

export const storageOptionsOf = (settings: StorageSettings, log: Logger, registry: Later): StorageOptions => ({
  ...settings,
  projects: { tenant: (ref) => registry().backend(ref), complete: () => registry().complete },
  log,
});

export const realtimeOptionsOf = (replication: ReplicationLogin, log: Logger, registry: Later): RealtimeOptions => ({
  log,
  replication,
  shares: new ReaderShares((ref) => registry().owner(ref)),
});

export const functionsOptionsOf = (
  { home, authorities }: FunctionsSettings,
  options: Pick<FunctionsOptions, 'publicUrl' | 'projectUrl' | 'allowedNetworks' | 'blockedAddresses' | 'log'>,
  registry: Later,
): FunctionsOptions => ({
  ...options,
  home,
  authorities,
  tenant: (ref) => registry().backend(ref),
  environment: (ref) => registry().environment(ref),
  owner: (ref) => registry().owner(ref),
});

/** Opens the control server of functions, and leads their requests for the public URL to a gateway. */
export async function connectFunctions(
  functions: FunctionsService,
  settings: FunctionsSettings,
  { gateway, log }: { gateway: Server; log: Logger },
): Promise<{ close(): void }> {
  const outwards = forwardCalls(functions, settings, gateway);
  const control = await startFunctionsControl(settings.control, functions, log);
  return {
    close: () => {
      control.close();
      control.closeAllConnections();
      outwards?.close();
    },
  };
}

/** Leads requests of functions for the public URL to the gateway, this one or that of other processes. */
function forwardCalls(functions: FunctionsService, { gatewayUrl }: FunctionsSettings, gateway: Server) {
  const outwards = gatewayUrl === undefined ? undefined : gatewayAt(gatewayUrl);
  functions.onGatewayRequest((incoming, outgoing, ref) => {
    const address = functionsAddress(ref);
    comesFrom(incoming, address);
    if (outwards) outwards.forward(incoming, outgoing, { of: ref, address });
    else gateway.emit('request', incoming, outgoing);
  });
  return outwards;
}

/** Forwards requests to a gateway elsewhere. A function may wait for another as long as a caller for it. */
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
