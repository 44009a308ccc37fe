import type { Placement, Plan, ProjectSpec, ProjectType, Region } from '@slipway/crds';

export type MachineRequests = Readonly<NonNullable<ProjectSpec['machine']>>;

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
  /** The place of auth and rest at present, from the Project's status. */
  placement: Placement | undefined;
  /** Requests for the project's machine, if its type has one. */
  machine?: MachineRequests | undefined;
}
