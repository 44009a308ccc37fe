/** From what the steps found to the Project's status: pure. */
import {
  type Condition,
  MESSAGE_MAX_LENGTH,
  type Phase,
  PROJECT_SERVICES,
  type Project,
  type ProjectStatus,
} from '@slipway/crds';
import type { Services } from '../../engines/engine.js';
import { type NewCondition, withCondition } from '../../runtime/conditions.js';
import type { Context, StepOutcome } from './context.js';

/** A condition, and how far its part is; undefined: not its turn yet. */
export interface PartResult {
  condition: string;
  outcome: StepOutcome | undefined;
  /** It tells something, but the project is as ready without it. */
  advisory?: boolean;
}

const RESTORED = 'Restored';
const RESTORING = 'Restoring';
const SUSPENDED = 'Suspended';
/** Conditions that a suspended project pauses; its namespace and its keys stay as they are. */
const STANDING_STILL = new Set(['DatabaseReady', 'ServicesReady', 'AuthReady', 'RestReady']);

/** `keepServices`: a step failed before anything looked at the services, so their last known state stays. */
export function statusOf(
  { project, deps, ref, found }: Context,
  parts: readonly PartResult[],
  keepServices = false,
): ProjectStatus {
  const before = project.status ?? {};
  const bearing = parts.filter(({ advisory }) => !advisory);
  const bad = bearing.find(({ outcome }) => outcome?.state === 'failed') ?? bearing.find((part) => !isReady(part));
  const phase = phaseOf(project, bad?.outcome);
  const services = found.services ?? (before.services && bad ? servicesOf(before.services, keepServices) : undefined);
  return {
    phase,
    message: messageOfAll(phase, bad).slice(0, MESSAGE_MAX_LENGTH),
    observedGeneration: project.metadata.generation ?? 0,
    ...(before.url !== undefined || phase === 'healthy' ? { url: deps.projectUrl(ref) } : {}),
    ...(services ? { services } : {}),
    ...placementOf(before, found),
    conditions: conditionsOf(project, parts, bad, deps.now()),
  };
}

/** Describes drift that was repaired. Only parts that were well before count: others had nothing to change. */
export function driftsOf(project: Project, parts: readonly PartResult[]): string[] {
  return parts.flatMap((part) => {
    const drift = driftOf(part, conditionBefore(project, part.condition));
    return drift ? [`put back: ${drift}`] : [];
  });
}

/** Parts that fail since this look, but for the one that Ready tells of: it has an Event of its own. */
export function failuresOf(project: Project, parts: readonly PartResult[]): { reason: string; message: string }[] {
  const failed = parts.flatMap(({ condition, outcome, advisory }) =>
    outcome?.state === 'failed' && condition !== 'Ready' ? [{ condition, outcome, advisory }] : [],
  );
  const told = failed.find(({ advisory }) => !advisory);
  return failed.flatMap((part) => {
    const isNews = conditionBefore(project, part.condition)?.reason !== part.outcome.reason;
    return isNews && part !== told ? [{ reason: part.outcome.reason, message: part.outcome.message }] : [];
  });
}

export const suspendedServices = (): Services =>
  Object.fromEntries(['database', ...PROJECT_SERVICES].map((name) => [name, { up: false, status: 'suspended' }]));

/** Kept while services are away, as those who route requests go by it. */
function placementOf(before: ProjectStatus, { placement = before.placement }: Context['found']) {
  return placement ? { placement } : {};
}

/** The status while the project's parts are taken away. */
export function deletingStatus(project: Project, message: string, now: Date): ProjectStatus {
  const generation = project.metadata.generation ?? 0;
  const condition = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const;
  const conditions = withCondition(project.status?.conditions ?? [], condition, generation, now);
  return { ...project.status, phase: 'deleting', message, observedGeneration: generation, conditions };
}

const isReady = ({ outcome }: PartResult) => outcome?.state === 'ready';

/** Returns the phase. A project that served before and does not now is in error, not provisioning. */
function phaseOf({ spec, status }: Project, bad: StepOutcome | undefined): Phase {
  if (bad?.state === 'failed') return 'error';
  if (spec.suspend) return 'suspended';
  if (!bad) return 'healthy';
  return status?.services && !isResuming(status) ? 'error' : 'provisioning';
}

const isResuming = ({ services = {} }: ProjectStatus) =>
  Object.values(services).some(({ status }) => status === 'suspended');

function messageOfAll(phase: Phase, bad: PartResult | undefined): string {
  if (phase !== 'suspended') return bad ? messageOf(bad.outcome) : 'ready';
  return bad ? `suspending: ${messageOf(bad.outcome)}` : 'suspended';
}

function messageOf(outcome: StepOutcome | undefined): string {
  if (!outcome) return 'waiting for an earlier step';
  return outcome.state === 'ready' ? 'ready' : outcome.message;
}

function conditionsOf(
  project: Project,
  parts: readonly PartResult[],
  bad: PartResult | undefined,
  now: Date,
): Condition[] {
  const further = parts.filter(({ condition }) => condition !== 'Ready').map((part) => conditionOf(project, part));
  const generation = project.metadata.generation ?? 0;
  return [readyOf(project, bad), ...further].reduce((list, condition) => {
    // A part whose turn did not come is as it was.
    const known = list.some(({ type }) => type === condition.type);
    return condition.status === 'Unknown' && known ? list : withCondition(list, condition, generation, now);
  }, project.status?.conditions ?? []);
}

function readyOf({ spec }: Project, bad: PartResult | undefined): NewCondition {
  if (bad) return { type: 'Ready', status: 'False', reason: reasonOf(bad.outcome), message: messageOf(bad.outcome) };
  if (spec.suspend) {
    const message = 'spec.suspend is true: nothing of it runs, its data stays';
    return { type: 'Ready', status: 'False', reason: SUSPENDED, message };
  }
  return { type: 'Ready', status: 'True', reason: 'Healthy', message: 'all services answer' };
}

function conditionOf(project: Project, part: PartResult): NewCondition {
  const { condition: type, outcome } = part;
  if (outcome === undefined) return { type, status: 'Unknown', reason: 'Waiting', message: messageOf(outcome) };
  if (project.spec.suspend && outcome.state === 'ready' && STANDING_STILL.has(type)) {
    return { type, status: 'False', reason: SUSPENDED, message: 'stands still while spec.suspend is true' };
  }
  const told = restorationOf(project, part);
  if (told) return told;
  const status = outcome.state === 'ready' ? 'True' : 'False';
  return { type, status, reason: reasonOf(outcome), message: messageOf(outcome) };
}

/** Keeps the message of a repair until the part or the spec changes. */
function restorationOf(project: Project, part: PartResult): NewCondition | undefined {
  const { condition: type, outcome } = part;
  if (!outcome || outcome.state === 'failed') return undefined;
  const before = conditionBefore(project, type);
  const isTold = before?.reason === RESTORING || (before?.reason === RESTORED && outcome.state === 'ready');
  const drift = driftOf(part, before) ?? (isTold ? driftToldBefore(before, project.metadata.generation) : undefined);
  if (drift === undefined) return undefined;
  return outcome.state === 'ready'
    ? { type, status: 'True', reason: RESTORED, message: `put back: ${drift}` }
    : { type, status: 'False', reason: RESTORING, message: `putting back: ${drift}` };
}

function driftOf({ outcome }: PartResult, before: Condition | undefined): string | undefined {
  if (!outcome || outcome.state === 'failed' || !outcome.restored?.length) return undefined;
  const wasWell = before?.status === 'True' || before?.reason === RESTORING;
  return wasWell ? outcome.restored.join('; ') : undefined;
}

const driftToldBefore = ({ observedGeneration, message }: Condition, generation: number | undefined) =>
  observedGeneration === generation ? message.replace(/^put(ting)? back: /, '') : undefined;

const conditionBefore = ({ status }: Project, type: string) =>
  status?.conditions?.find((condition) => condition.type === type);

function reasonOf(outcome: StepOutcome | undefined): string {
  if (!outcome) return 'Waiting';
  if (outcome.state === 'failed') return outcome.reason;
  return outcome.state === 'ready' ? 'Ready' : (outcome.reason ?? 'Provisioning');
}

const servicesOf = (before: Services, keep: boolean) => (keep ? before : markDown(before));

const markDown = (services: Services) =>
  Object.fromEntries(
    Object.entries(services).map(([name, service]) => [
      name,
      service.up ? { ...service, up: false, status: 'not answering' } : service,
    ]),
  );
