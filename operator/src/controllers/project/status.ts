/** Converts the outcomes of the steps to the Project's status: pure. */
import {
  ANNOTATION_UNOWNED,
  type Condition,
  isSuspended,
  MESSAGE_MAX_LENGTH,
  normalAddress,
  type Phase,
  type Project,
  type ProjectStatus,
  typeOf,
  unownedMessage,
} from '@slipway/crds';
import type { Services } from '../../capabilities/index.js';
import { type NewCondition, withCondition } from '../../runtime/conditions.js';
import type { Context, StepOutcome } from './context.js';
import type { ProjectType, Shown } from './project-type.js';

/** A condition, and the progress of its part. Undefined: its step has not run yet. */
export interface PartResult {
  condition: string;
  outcome: StepOutcome | undefined;
  /** True for a condition that does not count for the readiness of the project. */
  advisory?: boolean;
}

const RESTORED = 'Restored';
const RESTORING = 'Restoring';
const SUSPENDED = 'Suspended';

/**
 * Returns the status. `keepServices`: a step failed before the services were checked, so their last known state stays.
 */
export function statusOf(
  { project, deps, ref }: Context,
  parts: readonly PartResult[],
  { shown, keepServices = false }: { shown: Shown; keepServices?: boolean },
): ProjectStatus {
  const type = deps.types[typeOf(project)];
  const before = project.status ?? {};
  const bearing = parts.filter(({ advisory }) => !advisory);
  const bad = bearing.find(({ outcome }) => outcome?.state === 'failed') ?? bearing.find((part) => !isReady(part));
  const phase = phaseOf(project, bad?.outcome);
  const services = shown.services ?? (before.services && bad ? servicesOf(before.services, keepServices) : undefined);
  const further = parts
    .filter(({ condition }) => condition !== 'Ready')
    .map((part) => conditionOf(type, project, part));
  const conditions = [readyOf(type, project, { bad, services }), ...further];
  return {
    phase,
    message: messageOfAll(phase, bad, shown.message).slice(0, MESSAGE_MAX_LENGTH),
    observedGeneration: project.metadata.generation ?? 0,
    ...(type && (before.url !== undefined || phase === 'healthy') ? { url: type.url(deps, ref) } : {}),
    ...(services ? { services } : {}),
    ...upstreamOf(before, shown),
    ...databaseLinkOf(before, shown),
    ...placementOf(before, shown),
    ...serverOf(before, shown),
    ...machineOf(before, shown),
    ...usageOf(before, shown),
    ...previewsOf(before, shown),
    conditions: conditionsOf(conditions, project, deps.now()),
  };
}

/** Returns descriptions of repaired drift. Only parts that were well before count: in others a repair is no drift. */
export function driftsOf(project: Project, parts: readonly PartResult[]): string[] {
  return parts.flatMap((part) => {
    const drift = driftOf(project, part);
    return drift ? [`put back: ${drift}`] : [];
  });
}

/** Returns the parts that fail since this look. The part that Ready reports is left out: it has an Event of its own. */
export function failuresOf(project: Project, parts: readonly PartResult[]): { reason: string; message: string }[] {
  const failed = parts.flatMap(({ condition, outcome, advisory }) =>
    outcome?.state === 'failed' && condition !== 'Ready' ? [{ condition, outcome, advisory }] : [],
  );
  const ofReady = failed.find(({ advisory }) => !advisory);
  return failed.flatMap((part) => {
    const isNews = conditionBefore(project, part.condition)?.reason !== part.outcome.reason;
    return isNews && part !== ofReady ? [{ reason: part.outcome.reason, message: part.outcome.message }] : [];
  });
}

/** Returns the upstream. It stays while the container can't be looked after. */
function upstreamOf(before: ProjectStatus, { upstream = before.upstream ?? null }: Shown) {
  return upstream === null ? {} : { upstream };
}

/** Returns the link. It stays while it can't be looked after. */
function databaseLinkOf(before: ProjectStatus, { databaseLink = before.databaseLink ?? null }: Shown) {
  return databaseLink === null ? {} : { databaseLink };
}

/** Returns the placement. It stays while services are unavailable, as the data plane routes requests by it. */
function placementOf(before: ProjectStatus, { placement = before.placement }: Shown) {
  return placement ? { placement } : {};
}

/** Returns the machine. It stays while it can't be looked after. */
function serverOf(before: ProjectStatus, { server = before.server ?? null }: Shown) {
  return server === null ? {} : { server };
}

/** Returns the answers of the machine's engine. The last ones stay while it has not read what is there. */
function machineOf(before: ProjectStatus, { machine = before.machine }: Shown) {
  return machine ? { machine } : {};
}

/** Returns the usage. The last known one stays while it can't be measured. */
function usageOf(before: ProjectStatus, { usage = before.usage }: Shown) {
  return usage ? { usage } : {};
}

/** Returns the previews. The last known ones stay while they can't be read. */
function previewsOf(before: ProjectStatus, { previews = before.previews }: Shown) {
  return previews?.length ? { previews } : {};
}

/** Returns the status of a project while its parts are removed. */
export function deletingStatus(project: Project, message: string, now: Date): ProjectStatus {
  const generation = project.metadata.generation ?? 0;
  const condition = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const;
  const conditions = withCondition(project.status?.conditions ?? [], condition, generation, now);
  return { ...project.status, phase: 'deleting', message, observedGeneration: generation, conditions };
}

const isReady = ({ outcome }: PartResult) => outcome?.state === 'ready';

/** Returns the phase. A project that has served before and does not now is in error, not provisioning. */
function phaseOf(project: Project, bad: StepOutcome | undefined): Phase {
  if (bad?.state === 'failed') return 'error';
  if (isSuspended(project)) return 'suspended';
  if (!bad) return 'healthy';
  const { status } = project;
  return status?.services && !isResuming(status) && !isMaintenance(bad) ? 'error' : 'provisioning';
}

/** True while the owner's request needs the project's machine off, such as one for a snapshot. */
export const isMaintenance = (outcome: StepOutcome): boolean =>
  outcome.state === 'progressing' && outcome.reason === 'Maintenance';

const isResuming = ({ services = {} }: ProjectStatus) =>
  Object.values(services).some(({ status }) => status === 'suspended');

function messageOfAll(phase: Phase, bad: PartResult | undefined, well = 'ready'): string {
  if (phase !== 'suspended') return bad ? messageOf(bad.outcome) : well;
  return bad ? `suspending: ${messageOf(bad.outcome)}` : 'suspended';
}

function messageOf(outcome: StepOutcome | undefined): string {
  if (!outcome) return 'waiting for an earlier step';
  return outcome.state === 'ready' ? 'ready' : outcome.message;
}

function conditionsOf(conditions: readonly NewCondition[], project: Project, now: Date): Condition[] {
  const generation = project.metadata.generation ?? 0;
  return conditions.reduce((list, condition) => {
    // The condition of a step that did not run stays as it was.
    const known = list.some(({ type }) => type === condition.type);
    return condition.status === 'Unknown' && known ? list : withCondition(list, condition, generation, now);
  }, project.status?.conditions ?? []);
}

function readyOf(
  type: ProjectType | undefined,
  project: Project,
  { bad, services }: { bad: PartResult | undefined; services: Services | undefined },
): NewCondition {
  if (bad) return { type: 'Ready', status: 'False', reason: reasonOf(bad.outcome), message: messageOf(bad.outcome) };
  if (isSuspended(project)) {
    const message = `${suspendingField(project)} is true: nothing of it runs, its data stays`;
    return { type: 'Ready', status: 'False', reason: SUSPENDED, message };
  }
  const message = [type?.healthy(services), ...unowned(project)].join('; ');
  return { type: 'Ready', status: 'True', reason: 'Healthy', message };
}

const suspendingField = ({ spec }: Project) => (spec.suspend ? 'spec.suspend' : 'spec.suspendedByOwner');

/**
 * Returns a message if no account owns the project. The API's mark counts only for the current address in spec.owner.
 */
function unowned({ metadata, spec }: Project): string[] {
  const owner = normalAddress(spec.owner);
  return metadata.annotations?.[ANNOTATION_UNOWNED] === owner ? [unownedMessage(metadata.name, owner)] : [];
}

function conditionOf(projectType: ProjectType | undefined, project: Project, part: PartResult): NewCondition {
  const { condition: type, outcome } = part;
  if (outcome === undefined) return { type, status: 'Unknown', reason: 'Waiting', message: messageOf(outcome) };
  if (isSuspended(project) && outcome.state === 'ready' && projectType?.paused.has(type)) {
    const message = `paused while ${suspendingField(project)} is true`;
    return { type, status: 'False', reason: SUSPENDED, message };
  }
  const restoration = restorationOf(project, part);
  if (restoration) return restoration;
  const status = outcome.state === 'ready' ? 'True' : 'False';
  return { type, status, reason: reasonOf(outcome), message: messageOf(outcome) };
}

/** Returns the report of a repair. It stays until the part or the spec changes. */
function restorationOf(project: Project, part: PartResult): NewCondition | undefined {
  const { condition: type, outcome } = part;
  if (!outcome || outcome.state === 'failed') return undefined;
  const before = conditionBefore(project, type);
  const isReported = before?.reason === RESTORING || (before?.reason === RESTORED && outcome.state === 'ready');
  const drift = driftOf(project, part) ?? (isReported ? reportedDrift(before, project.metadata.generation) : undefined);
  if (drift === undefined) return undefined;
  return outcome.state === 'ready'
    ? { type, status: 'True', reason: RESTORED, message: `put back: ${drift}` }
    : { type, status: 'False', reason: RESTORING, message: `putting back: ${drift}` };
}

/**
 * Returns the drift of a part. A repair in the first look at a changed spec is no drift: the change, such as a
 * suspension, was requested.
 */
function driftOf({ metadata, status }: Project, { condition, outcome }: PartResult): string | undefined {
  if (!outcome || outcome.state === 'failed' || !outcome.restored?.length) return undefined;
  const before = status?.conditions?.find(({ type }) => type === condition);
  if (before && before.observedGeneration !== metadata.generation) return undefined;
  const wasWell = before?.status === 'True' || before?.reason === RESTORING;
  return wasWell ? outcome.restored.join('; ') : undefined;
}

const reportedDrift = ({ observedGeneration, message }: Condition, generation: number | undefined) =>
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
