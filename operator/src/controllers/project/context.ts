/** The input of one reconcile of a Project, and the outcomes of its steps. */
import type { Placement, Project } from '@slipway/crds';
import type { Logger } from 'pino';
import type { Engine, EngineOutcome, EnginePart, EngineProject, Services } from '../../engines/engine.js';
import type { EventRecorder } from '../../runtime/events.js';
import type { Informer } from '../../runtime/informer.js';
import type { KubeClient } from '../../runtime/kube.js';
import type { StatusWriter } from '../../runtime/status-writer.js';
import type { Namespace, Secret } from './resources.js';

/** The same for all reconciles. */
export interface ReconcilerDeps {
  client: KubeClient;
  engine: Engine;
  projects: Informer<Project>;
  statuses: StatusWriter<Project>;
  namespaces: Informer<Namespace>;
  secrets: Informer<Secret>;
  /** Without their values. */
  copies: Informer<Secret>;
  events: EventRecorder;
  log: Logger;
  /** `http://localhost:4000`; a project is at `<it>/p/<ref>`. */
  projectUrl(ref: string): string;
  now(): Date;
}

/** One reconcile. Later steps read what earlier ones found. */
export interface Context {
  deps: ReconcilerDeps;
  project: Project;
  ref: string;
  found: { anonKey?: string; nextJwtSecret?: string; services?: Services; placement?: Placement };
}

export const isToBeRetained = ({ spec }: Project) => spec.deletionPolicy === 'Retain';

/** The project as its engine knows it. */
export const engineProject = ({ project }: Pick<Context, 'project'>): EngineProject => {
  const { metadata, spec, status } = project;
  return {
    ref: metadata.name,
    uid: metadata.uid as string,
    owner: spec.owner,
    region: spec.region ?? 'eu-central',
    plan: spec.plan ?? 'free',
    suspended: spec.suspend ?? false,
    retain: isToBeRetained(project),
    placement: status?.placement,
  };
};

/** How far a part is: as an engine's verbs say it, as most steps end in one. */
export type StepOutcome = EngineOutcome;
export const ready: StepOutcome = { state: 'ready', value: undefined };

/** A step whose parts have conditions of their own. */
export interface StepWithParts {
  outcome: StepOutcome;
  parts: readonly EnginePart[];
}
