/**
 * One reconcile of a Project: a table of steps, each leaving a condition, and one write of the status at the end. In: a
 * ref. Out: the world as the Project wants it, and when to look again. Level-based: nothing is kept between two.
 */
import { FINALIZER } from '@slipway/crds';
import type { Outcome } from '../../runtime/controller.js';
import { addFinalizer, hasFinalizer } from '../../runtime/finalizers.js';
import { isConflict, isNotFound, type KubeError } from '../../runtime/kube.js';
import { refusedOutcome } from '../../runtime/refusal.js';
import { type Context, engineProject, ready, type StepOutcome, type StepWithParts, type World } from './context.js';
import { ensureDatabase } from './database.js';
import { finishRotation } from './finish-rotation.js';
import { ensureKeys } from './keys.js';
import { ensureNamespace } from './namespace.js';
import { removeProject } from './remove.js';
import { projectPath } from './resources.js';
import { CREDENTIALS_CURRENT } from './rotation.js';
import { driftsOf, failuresOf, type PartResult, statusOf, suspendedServices } from './status.js';
import { validate } from './validate.js';

interface Step {
  /** The condition that tells of it; Ready for one that is no part of its own. */
  condition: string;
  /** The project is as ready without it; it may have nothing to say. */
  advisory?: true;
  run(context: Context): Promise<StepOutcome | StepWithParts | undefined>;
}

/** Stages run one after the other, the steps of a stage side by side, as they need nothing of each other. */
const STAGES: readonly (readonly Step[])[] = [
  [{ condition: 'Ready', run: validate }],
  [
    { condition: 'Ready', run: ensureFinalizer },
    { condition: 'NamespaceReady', run: ensureNamespace },
  ],
  [
    { condition: 'IsolationReady', run: (context) => context.world.engine.ensureIsolation(engineProject(context)) },
    { condition: 'KeysReady', run: ensureKeys },
    { condition: 'DatabaseReady', run: ensureDatabase },
  ],
  [{ condition: 'ServicesReady', run: ensureServices }],
  [{ condition: CREDENTIALS_CURRENT, advisory: true, run: finishRotation }],
];

/** What is well is looked at again about this often, so that what others changed is put right. */
const RESYNC_MS = 180_000;

export async function reconcileProject(world: World, ref: string): Promise<Outcome> {
  const project = world.projects.get(ref);
  if (!project) return { kind: 'done' };
  const context: Context = { world, project, ref, found: {} };
  try {
    return await (project.metadata.deletionTimestamp ? removeProject(context) : provision(context));
  } catch (error) {
    // Read and written by another at once, or gone: the watch tells us more than the error does.
    if (isConflict(error) || isNotFound(error)) return { kind: 'retry', why: (error as Error).message };
    throw error;
  }
}

async function provision(context: Context): Promise<Outcome> {
  const parts = await runStages(context);
  const drifts = driftsOf(context.project, parts).map((message) => ({ reason: 'Drifted', message }));
  const warnings = [...drifts, ...failuresOf(context.project, parts)];
  context.project = await context.world.statuses.write(context.project, statusOf(context, parts));
  for (const { reason, message } of warnings) context.world.events.record(context.project, 'Warning', reason, message);
  return outcomeOf(parts);
}

async function runStages(context: Context): Promise<PartResult[]> {
  const parts: PartResult[] = [];
  let blocked = false;
  for (const stage of STAGES) {
    const results = await Promise.allSettled(stage.map((step) => (blocked ? undefined : step.run(context))));
    for (const [index, result] of results.entries()) {
      const { condition, advisory = false } = stage[index] as Step;
      const said = result.status === 'fulfilled' ? result.value : refused(result.reason);
      const { outcome, parts: further } = withParts(said);
      if (outcome || !advisory) parts.push({ condition, outcome, advisory });
      parts.push(...further);
      if (outcome?.state !== 'ready') blocked = true;
    }
  }
  return parts;
}

/** Written into the status, as whoever looks there must not take what was well before for how it is. What is no refusal is thrown on. */
const refused = (error: unknown): StepOutcome =>
  refusedOutcome(error, `the API server refuses a request for ${(error as KubeError).resource}`);

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

/** Before anything is made that garbage collection can't reach. */
async function ensureFinalizer(context: Context): Promise<StepOutcome> {
  const { world, ref, project } = context;
  if (hasFinalizer(project, FINALIZER)) return ready;
  const written = await addFinalizer(world.client, projectPath(ref), project, FINALIZER);
  world.projects.learn(written);
  context.project = written;
  return ready;
}

async function ensureServices(context: Context): Promise<StepWithParts> {
  const { world, found } = context;
  const project = engineProject(context);
  const asked = await world.engine.ensureServices({ project, anonKey: found.anonKey as string });
  const { outcome, parts, placement } = asked;
  if (placement) found.placement = placement;
  if (outcome.state !== 'ready') return { outcome, parts };
  const { services } = outcome.value;
  found.services = project.suspended ? suspendedServices() : { database: { up: true, status: 'running' }, ...services };
  return { outcome: { ...outcome, value: undefined }, parts };
}
