/**
 * Computes what is available in an installation: the types whose requirements it meets; and a project's services, by
 * its type and plan and by a setting that opens more. Read by the data plane, which rejects requests for other
 * services, by the operator, whose status shows them, and by discovery.
 */
import {
  type Capability,
  DEFAULT_TYPE,
  type Plan,
  PROJECT_SERVICES,
  PROJECT_TYPES,
  type ProjectService,
  type ProjectType,
  TYPES,
} from '@slipway/crds';
import { MACHINE_TOKEN_SETTING } from './machine-provider.js';
import { hasSites, PROJECTS_DOMAIN_SETTING, type ProjectPlaces } from './web-addresses.js';

/**
 * The reason why an installation is missing a capability, for users. Every installation has the capabilities that are
 * not listed here.
 */
const MISSING: Partial<Record<Capability, (places: ProjectPlaces) => string | undefined>> = {
  hosting: (places) =>
    hasSites(places)
      ? undefined
      : `has no domain for sites: set ${PROJECTS_DOMAIN_SETTING}, on a cluster projectsDomain of its site`,
  apps: ({ containerEngine: engine }) => {
    if (engine && 'form' in engine) return undefined;
    return engine ? `runs no containers: ${engine.lacking}` : 'runs no containers of apps';
  },
  machines: ({ hasMachines }) =>
    hasMachines ? undefined : `has no provider of machines: set ${MACHINE_TOKEN_SETTING}, on one machine`,
};

/** Undefined: the installation has the capability; the operator's `compose.ts` creates it. */
export const lacksOf = (places: ProjectPlaces, capability: Capability): string | undefined =>
  MISSING[capability]?.(places);

/**
 * Returns the reason why the installation can't have projects of the type, in the same words wherever one is rejected;
 * undefined: it can.
 */
export function whyTypeUnavailable(type: ProjectType, places: ProjectPlaces): string | undefined {
  const missingFor = (other: ProjectType) => TYPES[other].needs.flatMap((need) => lacksOf(places, need) ?? []);
  const missing = missingFor(type);
  if (missing.length === 0) return undefined;
  const available = PROJECT_TYPES.filter((other) => missingFor(other).length === 0).join(', ');
  return (
    `projects of type ${type} are not available on this installation (available: ${available}), ` +
    `which ${missing.join(' and ')}`
  );
}

/** Services that an installation opens to all projects of a type, beyond the availability matrix. */
export type OpenedServices = Readonly<Partial<Record<ProjectType, readonly ProjectService[]>>>;

/** The setting that opens services to shared projects: `storage,functions`, `all` or `none`. */
export const SHARED_SERVICES_SETTING = 'SLIPWAY_SERVICES_SHARED';

/** Parses that setting. Throws an error that names the setting and the fault. */
export function openedServices(shared: string | undefined): OpenedServices {
  const names = (shared ?? '').split(',').map((name) => name.trim());
  if (names.length === 1 && names[0] === 'all') return { [DEFAULT_TYPE]: PROJECT_SERVICES };
  if (names.length === 1 && names[0] === 'none') return { [DEFAULT_TYPE]: [] };
  const opened = names
    .filter((name) => name !== '')
    .map((name) => {
      const service = PROJECT_SERVICES.find((known) => known === name);
      if (!service) {
        const known = PROJECT_SERVICES.join(', ');
        throw new Error(
          `${SHARED_SERVICES_SETTING} names ${JSON.stringify(name)}: it is all, none, or a list of ${known}`,
        );
      }
      return service;
    });
  return { [DEFAULT_TYPE]: opened };
}

/**
 * Returns the reason why a project of the type is missing a service, and who may change that, in the same words
 * wherever a request is rejected.
 */
export const whyUnavailable = (service: ProjectService, type: ProjectType): { message: string; hint?: string } => ({
  message: `${service} is not available here: ${type} projects of this installation have no ${service}`,
  ...(TYPES[type].isOpened
    ? {
        hint:
          `The platform's administrator opens it to them: on one machine by ${SHARED_SERVICES_SETTING}=all ` +
          `npm start, or ${SHARED_SERVICES_SETTING}=${service}; on a cluster by openedServices of its site.`,
      }
    : {}),
});

/** Returns the services of a project of that type and plan in an installation that opens `opened`. */
export const availableServices = (type: ProjectType, plan: Plan, opened: OpenedServices): readonly ProjectService[] =>
  PROJECT_SERVICES.filter((name) => TYPES[type].services[plan].includes(name) || opened[type]?.includes(name));
