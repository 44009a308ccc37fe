/**
 * The snapshots of a dedicated project's machine, and the progress of its restore and resize, as REST shows them. In: a
 * Project, whose `spec.machine` has the requests and whose `status.machine` has the operator's answers. Pure.
 */
import { hasOwnMachine, type Project, typeOf } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import type { MachineProgress, Snapshot } from './snapshot.schema.js';

type SeenSnapshot = NonNullable<NonNullable<NonNullable<Project['status']>['machine']>['snapshots']>[number];

/** Returns the snapshots in the operator's order, and then those that it has not seen. */
export function snapshotsOf({ spec, status }: Project): Snapshot[] {
  // A map, because `constructor` is a valid name of a snapshot.
  const wanted = new Map(Object.entries(spec.machine?.snapshots ?? {}));
  const seen = status?.machine?.snapshots ?? [];
  const known = new Set(seen.map(({ name }) => name));
  const waiting = [...wanted].filter(([name]) => !known.has(name));
  return [
    ...seen.map((snapshot) => itemOf(snapshot, wanted.get(snapshot.name))),
    ...waiting.map(([name, { description }]) => waitingSnapshot(name, description)),
  ];
}

export const snapshotOf = (project: Project, name: string): Snapshot | undefined =>
  snapshotsOf(project).find((snapshot) => snapshot.name === name);

export const waitingSnapshot = (name: string, description?: string): Snapshot => ({
  name,
  description: description ?? null,
  state: 'waiting',
  message: null,
  disk_gb: null,
  created_at: null,
});

function itemOf(seen: SeenSnapshot, wanted: { description?: string } | undefined): Snapshot {
  return {
    name: seen.name,
    description: wanted?.description ?? null,
    state: wanted ? seen.state : 'deleting',
    message: seen.message ?? null,
    disk_gb: seen.diskGb ?? null,
    created_at: seen.createdAt ?? null,
  };
}

/** Returns the name of the snapshot whose restore the operator has not answered. */
export function pendingRestore({ spec, status }: Project): string | undefined {
  const requested = spec.machine?.restore;
  return requested && requested.number !== status?.machine?.restore?.number ? requested.snapshot : undefined;
}

/** Returns undefined for a project of another type. */
export function machineProgress(project: Project): MachineProgress | undefined {
  if (!hasOwnMachine(typeOf(project))) return undefined;
  const { machine: requested } = project.spec;
  const { machine: answers, server } = project.status ?? {};
  const restored = progressOf(requested?.restore, answers?.restore);
  const snapshot = (restored?.state === 'in_progress' ? requested : answers)?.restore?.snapshot;
  return {
    size: server?.size ?? null,
    restore: restored && snapshot !== undefined ? { snapshot, ...restored } : null,
    resize: progressOf(requested?.resize, answers?.resize) ?? null,
  };
}

interface Answer {
  number: number;
  at: string;
  error?: string;
}

function progressOf(requested: { number: number } | undefined, answer: Answer | undefined) {
  if (requested && requested.number !== answer?.number) return { state: 'in_progress' as const, at: null, error: null };
  if (!answer) return undefined;
  const { at, error } = answer;
  return { state: error === undefined ? ('done' as const) : ('failed' as const), at, error: error ?? null };
}

/** Rejects a request that needs a machine at the provider. */
export function refuseWithoutMachine({ status }: Project): void {
  if (status?.server?.id !== undefined) return;
  throw new Problem(
    'project_not_ready',
    'The project has no machine now. GET /projects/{id}/status shows the progress, or why the machine is missing.',
  );
}
