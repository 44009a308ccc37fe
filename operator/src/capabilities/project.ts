import type { Placement, Plan, ProjectType, Region, RestartableUnit } from '@slipway/crds';

/** The part of a Project that a capability needs. */
export interface EngineProject {
  ref: string;
  /** The uid of the Project, which owns the objects that are made for it. */
  uid: string;
  owner: string;
  type: ProjectType;
  region: Region;
  plan: Plan;
  /** True for a suspended project: nothing of it runs, and its data stays. */
  suspended: boolean;
  /** True if the data must outlive the Project: garbage collection must not delete the objects that store it. */
  retain: boolean;
  /** The number of the request to provision a machine. A changed one begins anew. Default: 0. */
  provision?: number | undefined;
  /** The place of auth and rest at present, from the Project's status. */
  placement: Placement | undefined;
  /** The numbers of the requested restarts of units, if the project has a machine. */
  restarts?: Readonly<Partial<Record<RestartableUnit, number>>>;
}
