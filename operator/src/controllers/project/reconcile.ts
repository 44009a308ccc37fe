/**
 * One reconcile of a Project: a table of steps, each leaving a condition, and one write of the status at the end. In: a
 * ref. Out: the world as the Project wants it, and when to look again. Level-based: nothing is kept between two.
 */
import { FINALIZER, type Project } from '@slipway/crds';
import type { Outcome } from '../../runtime/controller.js';
import { isTransient, type UnexpectedFailure, unexpectedOutcome } from '../../runtime/failures.js';
import { addFinalizer, hasFinalizer } from '../../runtime/finalizers.js';
import { isConflict, isNotFound, KubeError } from '../../runtime/kube.js';
import { refusalOf, refusedOutcome } from '../../runtime/refusal.js';
import {
  type Context,
  engineProject,
  type ReconcilerDeps,
  ready,
  type StepOutcome,
  type StepWithParts,
} from './context.js';
import { ensureDatabase, existed } from './database.js';
import { finishRotation } from './finish-rotation.js';
import { ensureKeys } from './keys.js';
import { ensureNamespace } from './namespace.js';
import { REMOVAL, removeProject, reportRemovalFailure } from './remove.js';
import { projectPath } from './resources.js';
import { CREDENTIALS_CURRENT } from './rotation.js';
import { driftsOf, failuresOf, type PartResult, statusOf, suspendedServices } from './status.js';
import { validate } from './validate.js';

interface Step {
  /** For messages, logs and metrics. */
  name: string;
  /** The condition that tells of it; Ready for one that is no part of its own. */
  condition: string;
  /** The project is as ready without it; it may have nothing to say. */
  advisory?: true;
  run(context: Context): Promise<StepOutcome | StepWithParts | undefined>;
}

/** Stages run one after the other, the steps of a stage side by side, as they need nothing of each other. */
const STAGES: readonly (readonly Step[])[] = [
  [{ name: 'validation', condition: 'Ready', run: validate }],
  [
    { name: 'finalizer', condition: 'Ready', run: ensureFinalizer },
    { name: 'namespace', condition: 'NamespaceReady', run: ensureNamespace },
  ],
  [
    { name: 'isolation', condition: 'IsolationReady', run: ensureIsolation },
    { name: 'keys', condition: 'KeysReady', run: ensureKeys },
    { name: 'database', condition: 'DatabaseReady', run: ensureDatabase },
  ],
  [{ name: 'services', condition: 'ServicesReady', run: ensureServices }],
  [{ name: 'rotation', condition: CREDENTIALS_CURRENT, advisory: true, run: finishRotation }],
];

/** Interval at which a healthy project is reconciled again, to repair what others changed. */
const RESYNC_MS = 180_000;

export async function reconcileProject(deps: ReconcilerDeps, ref: string): Promise<Outcome> {
  const project = deps.projects.get(ref);
  if (!project) return { kind: 'done' };
  const context: Context = { deps, project, ref, found: {} };
  try {
    return await (project.metadata.deletionTimestamp ? removeOrReport(context) : provision(context));
  } catch (error) {
    // Read and written by another at once, or gone: the watch tells us more than the error does.
    if (isConflict(error) || isNotFound(error)) return { kind: 'retry', why: (error as Error).message };
    throw error;
  }
}

/** A removal writes its progress itself; an unexpected error is written in the place of that. */
async function removeOrReport(context: Context): Promise<Outcome> {
  try {
    return await removeProject(context);
  } catch (error) {
    if (isTransient(error)) throw error;
    await reportRemovalFailure(context).catch(() => undefined);
    return { kind: 'unexpected', failures: [{ step: REMOVAL, error }] };
  }
}

async function provision(context: Context): Promise<Outcome> {
  const { parts, unexpected } = await runStages(context);
  const drifts = driftsOf(context.project, parts).map((message) => ({ reason: 'Drifted', message }));
  const warnings = [...drifts, ...failuresOf(context.project, parts)];
  const status = statusOf(context, parts, unexpected.length > 0);
  // Logged and counted also where the status can't be written.
  context.project = await context.deps.statuses.write(context.project, status).catch((error) => {
    if (unexpected.length === 0) throw error;
    return context.project;
  });
  for (const { reason, message } of warnings) context.deps.events.record(context.project, 'Warning', reason, message);
  return unexpected.length > 0 ? { kind: 'unexpected', failures: unexpected } : outcomeOf(parts);
}

interface StagesResult {
  parts: PartResult[];
  /** Steps that threw what no code expects; each has a part too. */
  unexpected: UnexpectedFailure[];
}

/** Runs the stages until one is not ready. Throws a transient error of a step, unless a step failed unexpectedly. */
async function runStages(context: Context): Promise<StagesResult> {
  const parts: PartResult[] = [];
  const unexpected: UnexpectedFailure[] = [];
  const transient: unknown[] = [];
  let blocked = false;
  for (const stage of STAGES) {
    const results = await Promise.allSettled(stage.map((step) => (blocked ? undefined : step.run(context))));
    for (const [index, result] of results.entries()) {
      const step = stage[index] as Step;
      if (result.status === 'rejected' && isTransient(result.reason)) {
        transient.push(result.reason);
        blocked = true;
        continue;
      }
      const returned = result.status === 'fulfilled' ? result.value : failureOf(step, result.reason, unexpected);
      const { outcome, parts: further } = withParts(returned);
      const { condition, advisory = false } = step;
      if (outcome || !advisory) parts.push({ condition, outcome, advisory });
      parts.push(...further);
      if (outcome?.state !== 'ready') blocked = true;
    }
  }
  if (transient.length > 0 && unexpected.length === 0) throw transient[0];
  return { parts, unexpected };
}

/** For the status: a request that the API server rejects, or an unexpected error, which is recorded in `unexpected`. */
function failureOf({ name }: Step, error: unknown, unexpected: UnexpectedFailure[]): StepOutcome {
  if (refusalOf(error)) {
    return refusedOutcome(error, `the API server refuses a request for ${(error as KubeError).resource}`);
  }
  unexpected.push({ step: name, error });
  return unexpectedOutcome(name);
}

const withParts = (said: StepOutcome | StepWithParts | undefined) =>
  said && 'parts' in said ? said : { outcome: said, parts: [] };

/** The part that is worst off decides when to look again. */
function outcomeOf(parts: readonly PartResult[]): Outcome {
  const outcomes = parts.flatMap(({ outcome }) => outcome ?? []);
  const bearing = parts.flatMap(({ outcome, advisory }) => (outcome && !advisory ? [outcome] : []));
  const failed = bearing.find((outcome) => outcome.state === 'failed');
  if (failed?.retry) return { kind: 'retry', why: failed.message };
  const progressing = outcomes.find((outcome) => outcome.state === 'progressing');
  if (progressing && !failed) return { kind: 'again', afterMs: progressing.lookAgainMs };
  const tidyMs = outcomes.flatMap((outcome) => (outcome.state === 'ready' ? (outcome.lookAgainMs ?? []) : []));
  return { kind: 'again', afterMs: Math.min(...tidyMs, RESYNC_MS * (0.75 + Math.random() / 2)) };
}

function ensureIsolation(context: Context): Promise<StepOutcome> {
  return context.deps.engine.ensureIsolation(engineProject(context));
}

/** Before anything is made that garbage collection can't reach. */
async function ensureFinalizer(context: Context): Promise<StepOutcome> {
  const { deps, ref, project } = context;
  if (hasFinalizer(project, FINALIZER)) {
    if (!existed(project)) await mustBeThere(context);
    return ready;
  }
  const written = await addFinalizer(deps.client, projectPath(ref), project, FINALIZER);
  deps.projects.learn(written);
  context.project = written;
  return ready;
}

/**
 * Before a database is made: the cache may still have a Project that is gone, and nobody would remove its database. One
 * that is there and has the finalizer does not go before its removal here.
 */
async function mustBeThere({ deps, ref, project }: Context): Promise<void> {
  const { metadata } = await deps.client.get<Project>(projectPath(ref));
  if (metadata.uid === project.metadata.uid && !metadata.deletionTimestamp) return;
  throw new KubeError(409, 'Conflict', 'the Project was deleted since it was read', 'projects');
}

async function ensureServices(context: Context): Promise<StepWithParts> {
  const { deps, found } = context;
  const project = engineProject(context);
  const asked = await deps.engine.ensureServices({ project, anonKey: found.anonKey as string });
  const { outcome, parts, placement } = asked;
  if (placement) found.placement = placement;
  if (outcome.state !== 'ready') return { outcome, parts };
  const { services } = outcome.value;
  found.services = project.suspended ? suspendedServices() : { database: { up: true, status: 'running' }, ...services };
  return { outcome: { ...outcome, value: undefined }, parts };
}
