/**
 * Services that run in pods of a project's own. In: requests whose key was good. Out: what the pod answers. A pod that
 * is away costs its callers a 502 until it answers again; one that stands still, a 504. Called by the gateway as any
 * service.
 */
import { DEPLOYED_SERVICES, namespaceOf } from '@slipway/crds';
import type { Service, ServiceRequest } from '../service.js';
import { headersFor, type ServiceAddress, UpstreamClient, type UpstreamLimits } from './upstream-client.js';

export type DeployedName = keyof typeof DEPLOYED_SERVICES;

export interface DeployedOptions {
  /** Where a service of a project answers; by default at its name in the cluster. */
  serviceAddress?: (ref: string, service: DeployedName) => ServiceAddress;
  limits?: Partial<UpstreamLimits>;
}

const inCluster = (ref: string, service: DeployedName): ServiceAddress => ({
  host: `${DEPLOYED_SERVICES[service].service}.${namespaceOf(ref)}.svc`,
  port: DEPLOYED_SERVICES[service].port,
});

/** One set of connections for all services of all projects. */
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
    // What is under way comes to its end, and what is idle is closed soon.
    forget: async () => undefined,
    close: async () => upstreamClient.close(),
  });
  return { auth: service('auth'), rest: service('rest') };
}

/** The project's key stays with us; PostgREST, which knows of none, is told by a token who calls. */
function headersOf(name: DeployedName, request: ServiceRequest) {
  const headers = headersFor(request);
  delete headers.apikey;
  if (name === 'rest' && request.token !== undefined) headers.authorization = `Bearer ${request.token}`;
  return headers;
}
