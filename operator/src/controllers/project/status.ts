/** From what the steps found to the Project's status: pure. */
import { type Condition, MESSAGE_MAX_LENGTH, type Phase, type Project, type ProjectStatus } from '@slipway/crds';
import { type NewCondition, withCondition } from '../../runtime/conditions.js';
import type { Context, StepOutcome } from './context.js';

/** A condition, and how far its part is; undefined: not its turn yet. */
export interface PartResult {
  condition: string;
  outcome: StepOutcome | undefined;
}

export function statusOf({ project, world, ref, found }: Context, parts: readonly PartResult[]): ProjectStatus {
  const before = project.status ?? {};
  const bad = parts.find(({ outcome }) => outcome?.state === 'failed') ?? parts.find((part) => !isReady(part));
  const phase = phaseOf(before, bad?.outcome);
  const services = found.services ?? (before.services && bad ? markDown(before.services) : undefined);
  return {
    phase,
    message: bad ? messageOf(bad.outcome).slice(0, MESSAGE_MAX_LENGTH) : 'ready',
    observedGeneration: project.metadata.generation ?? 0,
    ...(before.url !== undefined || phase === 'healthy' ? { url: world.projectUrl(ref) } : {}),
    ...(services ? { services } : {}),
    ...placementOf(before, found),
    conditions: conditionsOf(project, parts, bad, world.now()),
  };
}

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

/** What served before and doesn't now is in error, not being provisioned. */
function phaseOf(before: ProjectStatus, bad: StepOutcome | undefined): Phase {
  if (!bad) return 'healthy';
  return bad.state === 'failed' || before.services ? 'error' : 'provisioning';
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
  const ready: NewCondition = bad
    ? { type: 'Ready', status: 'False', reason: reasonOf(bad.outcome), message: messageOf(bad.outcome) }
    : { type: 'Ready', status: 'True', reason: 'Healthy', message: 'all services answer' };
  const all = [ready, ...parts.filter(({ condition }) => condition !== 'Ready').map(conditionOf)];
  const generation = project.metadata.generation ?? 0;
  return all.reduce((list, condition) => {
    // A part whose turn did not come is as it was.
    const known = list.some(({ type }) => type === condition.type);
    return condition.status === 'Unknown' && known ? list : withCondition(list, condition, generation, now);
  }, project.status?.conditions ?? []);
}

function conditionOf({ condition, outcome }: PartResult): NewCondition {
  const status = outcome === undefined ? 'Unknown' : outcome.state === 'ready' ? 'True' : 'False';
  return { type: condition, status, reason: reasonOf(outcome), message: messageOf(outcome) };
}

function reasonOf(outcome: StepOutcome | undefined): string {
  if (!outcome) return 'Waiting';
  if (outcome.state === 'failed') return outcome.reason;
  return outcome.state === 'ready' ? 'Ready' : 'Provisioning';
}

const markDown = (services: NonNullable<ProjectStatus['services']>) =>
  Object.fromEntries(
    Object.entries(services).map(([name, service]) => [
      name,
      service.up ? { ...service, up: false, status: 'not answering' } : service,
    ]),
  );
