import type { Placement, ProjectStatus } from '@slipway/crds';
import type { Usage } from './databases.js';
import type { EngineOutcome, EnginePart } from './outcome.js';
import type { EngineProject } from './project.js';

/** The services at a project's URL. */
export interface ProjectServices {
  /** Probes the services at the project's URL. Ready when all services that should be there answer. */
  ensure(request: ServicesRequest): Promise<ServicesOutcome>;
  /**
   * Ready when all replicas of all programs that verify the project's tokens accept `anonKey`. Its signature may be by
   * the next JWT secret.
   */
  verifiersAccept(request: ServicesRequest): Promise<EngineOutcome>;
  /** Returns the size of the project's files. Undefined if it is not known now, or if there are none. */
  storageUsage(project: EngineProject, serviceRoleKey: string): Promise<Usage | undefined>;
  /** Called before the project's database is removed. */
  remove(project: Pick<EngineProject, 'ref' | 'uid'>): Promise<void>;
}

export interface ServicesRequest {
  project: EngineProject;
  anonKey: string;
}

export type Services = NonNullable<ProjectStatus['services']>;

/** The state of the services, and of each part of them that has a condition of its own. */
export interface ServicesOutcome {
  outcome: EngineOutcome<{ services: Services }>;
  /** The place to which requests for auth and rest go from now on, ready or not. Undefined: no change. */
  placement?: Placement;
  parts: readonly EnginePart[];
}
