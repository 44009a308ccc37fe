/** The interface that each type of project implements, for reconciles, removals and the status. */
import type { Placement, Project, ProjectStatus, ProjectType as TypeName } from '@slipway/crds';
import type { MachineView, Services } from '../../capabilities/index.js';
import type { Context, ReconcilerDeps, StepOutcome } from './context.js';
import type { Stages } from './stages.js';

/** Parts of the status that are not conditions. A missing part stays as it was. */
export interface Shown {
  /** Message when everything is ready. Default: `ready`. */
  message?: string;
  services?: Services;
  placement?: Placement;
  /** The address of an app's container. Null: none serves. */
  upstream?: string | null;
  /** Null: there is none. */
  databaseLink?: NonNullable<ProjectStatus['databaseLink']> | null;
  /** The project's machine. Null: there is none. */
  server?: MachineView | null;
  /** The answers to requests for the machine. A missing one stays as it was. */
  machine?: NonNullable<ProjectStatus['machine']>;
  usage?: NonNullable<ProjectStatus['usage']>;
  previews?: ProjectStatus['previews'];
}

export interface ProjectType {
  /** The conditions of its own steps, in order. A condition whose step has not run yet reports that it waits. */
  conditions: readonly string[];
  /** The conditions that a suspension pauses. The others do not change. */
  paused: ReadonlySet<string>;
  /** Runs the steps of the type, stage by stage, once the project has its namespace. Fills in `shown`. */
  provision(context: Context, stages: Stages, shown: Shown): Promise<void>;
  /** Returns the URL for the status. */
  url(deps: Pick<ReconcilerDeps, 'projectUrl' | 'capabilities'>, ref: string): string;
  /** Returns the message of the condition Ready when all is well. */
  healthy(services: Services | undefined): string;
  /** Removes the project's data. Ready when only the namespace is left. */
  remove(context: Context): Promise<StepOutcome>;
  /** Returns a description of the removal for the owner. */
  removing(project: Project): string;
}

/** The types by name. A missing type is not available. */
export type ProjectTypes = Readonly<Partial<Record<TypeName, ProjectType>>>;
