/**
 * One reconcile of a Project: the steps of its type, each with a condition, and one write of the status at the end. In:
 * a ref. Out: the state that the Project requests, and when to reconcile again. Level-based: no state is kept between
 * two reconciles.
 */

import { typeOf } from '@slipway/crds';
import { isConflict, isNotFound } from '@slipway/kubernetes';
import type { Outcome } from '../../runtime/controller.js';
import { isTransient } from '../../runtime/failures.js';
import type { Context, ReconcilerDeps } from './context.js';
import type { Shown } from './project-type.js';
import { REMOVAL, removeProject, reportRemovalFailure } from './remove.js';
import { Stages } from './stages.js';
import { driftsOf, failuresOf, type PartResult, statusOf } from './status.js';
import { ensureFinalizer } from './steps/finalizer.js';
import { ensureNamespace } from './steps/namespace.js';
import { validate } from './steps/validate.js';

/** Milliseconds after which a healthy project is reconciled again, to repair drift. */
const RESYNC_MS = 180_000;

export async function reconcileProject(deps: ReconcilerDeps, ref: string): Promise<Outcome> {
  const project = deps.projects.get(ref);
  if (!project) return { kind: 'done' };
  const context: Context = { deps, project, ref };
  try {
    return await (project.metadata.deletionTimestamp ? removeOrReport(context) : provision(context));
  } catch (error) {
    // The object was written or deleted by another client at the same time. The watch reports more than the error does.
    if (isConflict(error) || isNotFound(error)) return { kind: 'retry', why: (error as Error).message };
    throw error;
  }
}

/** A removal writes its progress itself. An unexpected error is written instead. */
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
  const { stages, shown } = await runStages(context);
  const { parts, unexpected } = stages;
  const repairs = driftsOf(context.project, parts);
  if (repairs.length > 0) context.deps.log.info({ ref: context.ref, repairs }, 'drift repaired');
  const drifts = repairs.map((message) => ({ reason: 'Drifted', message }));
  const warnings = [...drifts, ...failuresOf(context.project, parts)];
  const status = statusOf(context, parts, { shown, keepServices: unexpected.length > 0 });
  // Unexpected failures are logged and counted also if the status can't be written.
  context.project = await context.deps.statuses.write(context.project, status).catch((error) => {
    if (unexpected.length === 0) throw error;
    return context.project;
  });
  for (const { reason, message } of warnings) context.deps.events.record(context.project, 'Warning', reason, message);
  return unexpected.length > 0 ? { kind: 'unexpected', failures: unexpected } : outcomeOf(parts);
}

const NAMESPACE_READY = 'NamespaceReady';

/**
 * Runs the stages of every type and then those of its own, until one is not ready. Conditions whose stage did not run
 * get a part too.
 */
async function runStages(context: Context): Promise<{ stages: Stages; shown: Shown }> {
  const stages = new Stages();
  const shown: Shown = {};
  const type = context.deps.types[typeOf(context.project)];
  const isValid = await stages.run({ validation: { condition: 'Ready', run: () => validate(context) } });
  const isThere =
    isValid &&
    (await stages.run({
      finalizer: { condition: 'Ready', run: () => ensureFinalizer(context) },
      namespace: { condition: NAMESPACE_READY, run: () => ensureNamespace(context) },
    }));
  if (isThere) await type?.provision(context, stages, shown);
  stages.throwTransient();
  const reported = new Set(stages.parts.map(({ condition }) => condition));
  const waiting = (type ? [NAMESPACE_READY, ...type.conditions] : []).filter((condition) => !reported.has(condition));
  stages.parts.push(...waiting.map((condition) => ({ condition, outcome: undefined })));
  return { stages, shown };
}

/** Returns when to look again: the part in the worst state decides, and of those in progress the most urgent one. */
export function outcomeOf(parts: readonly PartResult[]): Outcome {
  const outcomes = parts.flatMap(({ outcome }) => outcome ?? []);
  const bearing = parts.flatMap(({ outcome, advisory }) => (outcome && !advisory ? [outcome] : []));
  const failed = bearing.find((outcome) => outcome.state === 'failed');
  if (failed?.retry) return { kind: 'retry', why: failed.message };
  if (failed?.terminal) return { kind: 'done' };
  const looks = outcomes.flatMap((outcome) => (outcome.state === 'progressing' ? outcome.lookAgainMs : []));
  if (looks.length > 0 && !failed) return { kind: 'again', afterMs: Math.min(...looks) };
  const tidyMs = outcomes.flatMap((outcome) => (outcome.state === 'ready' ? (outcome.lookAgainMs ?? []) : []));
  return { kind: 'again', afterMs: Math.min(...tidyMs, RESYNC_MS * (0.75 + Math.random() / 2)) };
}
