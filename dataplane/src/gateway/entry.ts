/** Services of this data plane, as the gateway needs them. */
import { type ProjectService } from '@slipway/crds';
import { type Refusal, serviceDown } from '../http/refusals.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service, Services } from '../services/service.js';
import type { ServiceAddress } from './address.js';
import { notHere, unavailable } from './refusals.js';
import { RULES, type ServiceRules } from './rules.js';

export interface Entry {
  name: ProjectService;
  /** Name of the operation for the watchdog. */
  operation: string;
  service: Service;
  /** Rules by which the gateway treats this service differently. */
  rules: ServiceRules;
  /** Response if the service is unreachable. */
  down: Refusal;
}

export const entriesOf = (services: Services, down: (service: ProjectService) => Refusal = serviceDown) =>
  new Map<string, Entry>(
    (Object.entries(services) as [ProjectService, Service][]).map(([name, service]) => [
      name,
      { name, operation: `${name} request`, service, rules: RULES[name], down: down(name) },
    ]),
  );

/** Returns the rejection in the format of the service's clients. */
export const worded = (entry: Entry | undefined, refusal: Refusal): Refusal =>
  entry?.rules.reworded?.(refusal) ?? refusal;

/** Returns the 404 for a service that does not run here, one that the project does not have, or an unknown one. */
export function absent(place: ServiceAddress | undefined, tenant: BackendTenant): Refusal {
  const name = place?.service;
  if (name !== undefined && isProjectService(name)) {
    if (!tenant.services.has(name)) return unavailable(name, tenant.type);
    return notHere(
      name,
      `this installation does not run the ${name} service; a cluster has it by the component ${name}`,
    );
  }
  if (name === 'graphql') return notHere(name, 'this installation does not run the GraphQL service');
  const paths = [...tenant.services].map((service) => `/${service}/v1`).join(', ');
  return { status: 404, body: { message: 'no Route matched with those values', hint: `The project has ${paths}.` } };
}

const isProjectService = (name: string): name is ProjectService => Object.hasOwn(RULES, name);
