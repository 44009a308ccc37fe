import type { ProjectStatus } from '@slipway/crds';
import type { MachineProject } from '@slipway/installation';
import type { Databases } from './databases.js';
import type { FunctionEngine } from './functions.js';
import type { EngineOutcome, EnginePart } from './outcome.js';
import type { EngineProject } from './project.js';

/** The machine as the status shows it, and as the data plane reads it. */
export type MachineView = NonNullable<ProjectStatus['server']>;

/** Answers to requests for snapshots, a restore and another size. */
export type MachineAnswers = NonNullable<ProjectStatus['machine']>;

/**
 * The content of the project's document on its machine, without the values that only the machine's engine knows. It
 * replaces the addresses of the logins.
 */
export type MachineDocument = Omit<MachineProject, 'revision' | 'replication'> & { replicationSlot: string };

export interface MachineProgress {
  /** Ready when the last stage is. */
  outcome: EngineOutcome;
  /** A part for each stage, in their order. Stages that did not begin yet are left out. */
  parts: readonly EnginePart[];
  /** Null: there is no machine. Undefined: not known yet. */
  view: MachineView | null | undefined;
  /** The answers to requests, for the status. Undefined: not known yet. */
  answers?: MachineAnswers | undefined;
  /** The time that each finished stage took, for people: `create 1.2 s, boot 14 s`. */
  durations: string;
}

/**
 * Machines at a provider, one for each project. The methods return at once what is reached: the work continues by
 * itself, and `onChange` reports each step. Each method may be repeated.
 */
export interface Machines {
  /** The databases in the Postgres of each machine. */
  readonly databases: Databases;
  /** The functions on each machine. */
  readonly functions: FunctionEngine;
  /** Creates the machine and installs the software. Ready when the machine can be configured. */
  ensure(project: EngineProject): Promise<MachineProgress>;
  /** Brings the machine to the state for this document, and repairs drift. Ready when all units run. */
  configure(project: EngineProject, document: MachineDocument): Promise<Pick<MachineProgress, 'outcome' | 'parts'>>;
  /** Deletes the machine and everything of it at the provider. `retain`: a snapshot of its disk stays. */
  remove(project: Pick<EngineProject, 'ref' | 'uid' | 'owner' | 'retain'>): Promise<EngineOutcome>;
  /** Calls `listener` with the ref of each project whose machine changed. */
  onChange(listener: (ref: string) => void): void;
}
