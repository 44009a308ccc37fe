/**
 * Services that run in a project's own pods. In: requests with a valid key. Out: responses of the pod. While a pod is
 * unavailable, callers get 502, and if it stalls, 504. The gateway calls it like any service.
 */
import { DEPLOYED_SERVICES, namespaceOf } from '@slipway/installation';
import type { Service, ServiceRequest } from '../services/service.js';
import { headersFor, type ServiceAddress, UpstreamClient, type UpstreamLimits } from './upstream-client.js';

export type DeployedName = keyof typeof DEPLOYED_SERVICES;

export interface DeployedOptions {
  /** Address of a project's service. Default: its name in the cluster. */
  serviceAddress?: (ref: string, service: DeployedName) => ServiceAddress;
  limits?: Partial<UpstreamLimits>;
}

const inCluster = (ref: string, service: DeployedName): ServiceAddress => ({
  host: `${DEPLOYED_SERVICES[service].service}.${namespaceOf(ref)}.svc`,
  port: DEPLOYED_SERVICES[service].port,
});

/** One pool of connections for all services of all projects. */
export function createDeployedServices(options: DeployedOptions = {}): Record<DeployedName, Service> {
  const { serviceAddress = inCluster, limits } = options;
  const upstreamClient = new UpstreamClient(limits);
  const service = (name: DeployedName): Service => ({
    handle: (request) => {
      const { tenant, path, query } = request;
      return upstreamClient.forward({
        to: `${tenant.ref}/${name}`,
        address: serviceAddress(tenant.ref, name),
        path: query === '' ? path : `${path}?${query}`,
        headers: headersOf(name, request),
        request,
      });
    },
    // Requests in flight finish, and idle connections are closed soon.
    forget: async () => undefined,
    close: async () => upstreamClient.close(),
  });
  return { auth: service('auth'), rest: service('rest') };
}

/** Sets the token. PostgREST knows no API keys, so the key is not forwarded. */
function headersOf(name: DeployedName, request: ServiceRequest) {
  const headers = headersFor(request);
  delete headers.apikey;
  if (name === 'rest' && request.token !== undefined) headers.authorization = `Bearer ${request.token}`;
  return headers;
}
