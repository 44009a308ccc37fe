/**
 * Which services a project has, by its type and plan: the matrix, and what an installation opens beyond it by one
 * setting a type. Read by the data plane, which refuses the others; by the operator, whose status shows them; and by
 * discovery.
 */
import type { Plan, ProjectType } from './project.js';

/** Each answers at `/<name>/v1` of a project's URL. */
export const PROJECT_SERVICES = ['rest', 'auth', 'realtime', 'storage', 'functions'] as const;
export type ProjectService = (typeof PROJECT_SERVICES)[number];

type Matrix = Readonly<Record<ProjectType, Readonly<Record<Plan, readonly ProjectService[]>>>>;

const onEveryPlan = (...services: ProjectService[]): Record<Plan, readonly ProjectService[]> => ({
  free: services,
  starter: services,
  pro: services,
  team: services,
  enterprise: services,
});

const MATRIX: Matrix = {
  shared: onEveryPlan('rest', 'auth', 'realtime'),
  dedicated: onEveryPlan('rest', 'auth', 'realtime', 'storage', 'functions'),
  frontend: onEveryPlan(),
  app: onEveryPlan(),
};

/** Services that an installation opens to all projects of a type, whatever the matrix says. */
export type OpenedServices = Readonly<Partial<Record<ProjectType, readonly ProjectService[]>>>;

/** The setting that opens services to shared projects: `storage,functions`. */
export const SHARED_SERVICES_SETTING = 'SLIPWAY_SERVICES_SHARED';

/** In: that setting's text. Throws an error that names the setting and what is wrong. */
export function openedServices(shared: string | undefined): OpenedServices {
  const names = (shared ?? '').split(',').map((name) => name.trim());
  const opened = names
    .filter((name) => name !== '')
    .map((name) => {
      const service = PROJECT_SERVICES.find((known) => known === name);
      if (!service) {
        const known = PROJECT_SERVICES.join(', ');
        throw new Error(`${SHARED_SERVICES_SETTING} names ${JSON.stringify(name)}: it is a list of ${known}`);
      }
      return service;
    });
  return { shared: opened };
}

/**
 * Why a project of that type lacks a service, and who may change that: the words are the same wherever it is refused.
 */
export const whyUnavailable = (service: ProjectService, type: ProjectType): { message: string; hint?: string } => ({
  message: `${service} is not available here: ${type} projects of this installation have no ${service}`,
  ...(type === 'shared'
    ? {
        hint: `Whoever runs it opens ${service} to them by the setting ${SHARED_SERVICES_SETTING}=${service}, on a cluster by openedServices of its site.`,
      }
    : {}),
});

/** Returns the services of a project of that type and plan in an installation that opens `opened`. */
export const availableServices = (type: ProjectType, plan: Plan, opened: OpenedServices): readonly ProjectService[] =>
  PROJECT_SERVICES.filter((name) => MATRIX[type][plan].includes(name) || opened[type]?.includes(name));
