/**
 * The types of projects: the parts of a project of each type, and the capabilities that the installation needs for it.
 * All differences between types are in this table.
 */
import type { Plan } from './plans.js';

export const PROJECT_TYPES = ['shared', 'dedicated', 'frontend', 'app'] as const;
export type ProjectType = (typeof PROJECT_TYPES)[number];

/** The type of a project whose spec does not set one. */
export const DEFAULT_TYPE: ProjectType = 'shared';

/** The types that accounts may use, unless an administrator or the site's settings choose others. */
export const TYPES_OF_ACCOUNTS: readonly ProjectType[] = ['shared', 'frontend', 'app'];

/** Services of a project. Each service responds at `/<name>/v1` of a project's URL. */
export const PROJECT_SERVICES = ['rest', 'auth', 'realtime', 'storage', 'functions'] as const;
export type ProjectService = (typeof PROJECT_SERVICES)[number];

/** Capabilities of an installation. An installation may have only some of them. */
export const CAPABILITIES = ['isolation', 'databases', 'services', 'hosting', 'builds', 'apps', 'machines'] as const;
export type Capability = (typeof CAPABILITIES)[number];

interface TypeTraits {
  hasDatabase: boolean;
  services: Readonly<Record<Plan, readonly ProjectService[]>>;
  /** True if a setting of the installation enables more services for all projects of the type. */
  isOpened: boolean;
  /** True if Builds make the project from a git repository, where the installation has builds. */
  isBuilt: boolean;
  needs: readonly Capability[];
}

const onEveryPlan = (...services: ProjectService[]): Record<Plan, readonly ProjectService[]> => ({
  free: services,
  starter: services,
  pro: services,
  team: services,
  enterprise: services,
});

export const TYPES: Readonly<Record<ProjectType, TypeTraits>> = {
  shared: {
    hasDatabase: true,
    services: onEveryPlan('rest', 'auth', 'realtime'),
    isOpened: true,
    isBuilt: false,
    needs: ['isolation', 'databases', 'services'],
  },
  dedicated: {
    hasDatabase: true,
    services: onEveryPlan(...PROJECT_SERVICES),
    isOpened: false,
    isBuilt: false,
    needs: ['isolation', 'services', 'machines'],
  },
  frontend: {
    hasDatabase: false,
    services: onEveryPlan(),
    isOpened: false,
    isBuilt: true,
    needs: ['isolation', 'hosting'],
  },
  app: {
    hasDatabase: false,
    services: onEveryPlan(),
    isOpened: false,
    isBuilt: true,
    needs: ['isolation', 'hosting', 'builds', 'apps'],
  },
};

export const typeOf = ({ spec }: { spec: { type?: ProjectType } }): ProjectType => spec.type ?? DEFAULT_TYPE;

/** True if a project of the type is a site or an app with its own origin. */
export const isHosted = (type: ProjectType): boolean => TYPES[type].needs.includes('hosting');

/** True if a project of the type has its own machine, which runs its services. */
export const hasOwnMachine = (type: ProjectType): boolean => TYPES[type].needs.includes('machines');
