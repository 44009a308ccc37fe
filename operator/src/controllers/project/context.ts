/** The input of one reconcile of a Project. */

import { type Build, isSuspended, normalAddress, type Project, typeOf } from '@slipway/crds';
import type { ProjectPlaces } from '@slipway/installation';
import type { Informer, KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { Capabilities, EngineOutcome, EngineProject } from '../../capabilities/index.js';
import type { EventRecorder } from '../../runtime/events.js';
import type { StatusWriter } from '../../runtime/status-writer.js';
import type { HostCheck } from './host-check.js';
import type { ProjectTypes } from './project-type.js';
import type { Namespace, Secret } from './resources.js';

/** The members that all reconciles share. */
export interface ReconcilerDeps {
  client: KubeClient;
  capabilities: Capabilities;
  types: ProjectTypes;
  /** The addresses that decide which types are available. */
  places: ProjectPlaces;
  projects: Informer<Project>;
  statuses: StatusWriter<Project>;
  namespaces: Informer<Namespace>;
  secrets: Informer<Secret>;
  /** Copies of Secrets, without their values. */
  copies: Informer<Secret>;
  builds: Informer<Build>;
  events: EventRecorder;
  log: Logger;
  /** Undefined: hosts in settings are not checked. */
  hostCheck?: HostCheck | undefined;
  /** Returns the URL of a project: `http://localhost:4000/p/<ref>`. */
  projectUrl(ref: string): string;
  now(): Date;
}

/** One reconcile. */
export interface Context {
  deps: ReconcilerDeps;
  project: Project;
  ref: string;
}

export const isToBeRetained = ({ spec }: Project) => spec.deletionPolicy === 'Retain';

/** Returns the part of the project that capabilities need. */
export const engineProject = ({ project }: Pick<Context, 'project'>): EngineProject => {
  const { metadata, spec, status } = project;
  return {
    ref: metadata.name,
    uid: metadata.uid as string,
    owner: normalAddress(spec.owner),
    type: typeOf(project),
    region: spec.region ?? 'eu-central',
    plan: spec.plan ?? 'free',
    suspended: isSuspended(project),
    retain: isToBeRetained(project),
    placement: status?.placement,
    machine: spec.machine,
  };
};

/** The progress of a part, in the form of a capability's outcome: most steps end with one. */
export type StepOutcome = EngineOutcome;
export const ready: StepOutcome = { state: 'ready', value: undefined };
