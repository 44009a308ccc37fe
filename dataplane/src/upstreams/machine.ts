/**
 * Services of projects with a machine of their own. In: requests with a valid key, and the address and certificate of
 * the machine in the tenant. Out: responses of the machine, over TLS to exactly that certificate. A project's
 * connections are closed when the project is deleted or suspended, or its machine or certificate is replaced.
 */
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { machineDown, serviceTooSlow } from '../http/refusals.js';
import type { BackendTenant, Tenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { createServiceElsewhere } from './remote.js';
import { type ServiceAddress, ServiceTooSlow, type UpstreamLimits } from './upstream-client.js';

export interface MachineOptions {
  /** Returns the project as it is now. A request whose project has changed since is not sent to the former machine. */
  tenant(ref: string): Tenant | undefined;
  /** Default: 443. */
  port?: number;
  limits?: Partial<UpstreamLimits>;
  handshakeMilliseconds?: number;
  /** Sockets of all projects together. */
  sockets?: number;
}

const HTTPS_PORT = 443;
/** A project alone gets a fifth of all places, so that one slow machine leaves the others theirs. */
const PER_FREE = 1 / 4;

/** Each service has a pool of connections, which no two projects share. */
export function createMachineServices({
  tenant,
  port = HTTPS_PORT,
  limits,
  ...options
}: MachineOptions): Record<ProjectService, Service> {
  const addressOf = ({ ref, incarnation }: BackendTenant): ServiceAddress | undefined => {
    const now = tenant(ref);
    if (now?.kind !== 'backend' || now.suspended || now.incarnation !== incarnation || !now.machine) return undefined;
    const { address, certificate } = now.machine;
    return { host: address, port, pin: { owner: ref, certificate } };
  };
  const create = (service: ProjectService) =>
    createServiceElsewhere({
      ...options,
      service,
      addressOf,
      refusalOf: (error) => (error instanceof ServiceTooSlow ? serviceTooSlow(service) : machineDown()),
      limits: { perFreePlace: PER_FREE, ...limits },
      socketsPerFree: PER_FREE,
      closesOnForget: true,
    });
  return Object.fromEntries(PROJECT_SERVICES.map((service) => [service, create(service)])) as Record<
    ProjectService,
    Service
  >;
}
