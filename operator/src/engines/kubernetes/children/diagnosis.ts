/**
 * Finds the reason why a Deployment or StatefulSet is not ready, in the words of its pods and of the API. Pure. In: the
 * workload and its pods, from the caches. Out: an outcome, which is failed if the problem does not soon disappear by
 * itself. Called by all code that has pods.
 */
import type { KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome } from '../../../capabilities/index.js';
import type { ContainerStatus, Pod } from './kinds.js';

export interface Workload extends KubeObject {
  spec?: { replicas?: number };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    readyReplicas?: number;
    availableReplicas?: number;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
  };
}

export interface Claim extends KubeObject {
  status?: { phase?: string };
}

interface Problem {
  reason: string;
  message: string;
}

const ready: EngineOutcome = { state: 'ready', value: undefined };
/**
 * Milliseconds between checks. The watch reports changes of pods, so the checks only cover state that no object shows.
 */
const LOOK_AGAIN_MS = 5_000;
/** Maximum characters that are quoted of another program's message. */
const QUOTE_LENGTH = 240;
/** Number of restarts after which a container that is not ready counts as a container that does not start. */
const RESTARTS = 2;

/** True if all desired pods exist, are of the newest template, and are ready. */
export function isUpToDate({ metadata, spec, status = {} }: Workload): boolean {
  const wanted = spec?.replicas ?? 1;
  const { observedGeneration = 0, replicas = 0, updatedReplicas = 0, readyReplicas = 0 } = status;
  const available = status.availableReplicas ?? 0;
  if (observedGeneration < (metadata.generation ?? 0)) return false;
  if (wanted === 0) return replicas === 0;
  // While a pod of an older template exists, the ready pod may be that one.
  if (replicas > updatedReplicas) return false;
  return updatedReplicas >= wanted && readyReplicas >= wanted && available >= wanted;
}

const ENDED = new Set(['Succeeded', 'Failed']);

/**
 * True if no pod of an older template serves beside those of an up-to-date workload. Pods that are being deleted are in
 * no count of the status, but still serve their connections. A surplus pod is one of these that the watch has not
 * reported yet.
 */
export function areAlone({ spec }: Workload, pods: readonly Pod[]): boolean {
  const running = pods.filter(({ status }) => !ENDED.has(status?.phase ?? ''));
  return running.length <= (spec?.replicas ?? 1) && running.every(({ metadata }) => !metadata.deletionTimestamp);
}

/** Whether the workload serves requests at all, even by pods of an older template. */
export const isServing = ({ status }: Workload) => (status?.availableReplicas ?? 0) > 0;

/** Returns the outcome of a workload. `name`: the name of its pods in the message. */
export function diagnose(
  name: string,
  workload: Workload | undefined,
  pods: readonly Pod[],
  claims: readonly Claim[] = [],
): EngineOutcome {
  if (!workload) return { state: 'progressing', message: `waiting for ${name} to be made`, lookAgainMs: LOOK_AGAIN_MS };
  if (isUpToDate(workload)) return ready;
  const living = pods.filter(({ metadata }) => !metadata.deletionTimestamp);
  const problem =
    claimProblem(name, claims) ??
    living.map((pod) => podProblem(name, pod)).find((found) => found !== undefined) ??
    refusal(name, workload) ??
    stall(name, workload);
  if (problem) return { state: 'failed', ...problem, retry: true };
  return {
    state: 'progressing',
    message: `waiting for ${name}: ${stageOf(workload, living)}`,
    lookAgainMs: LOOK_AGAIN_MS,
  };
}

/** Returns a problem of a lost volume. A pending claim is no problem: it waits for its first pod. */
function claimProblem(name: string, claims: readonly Claim[]): Problem | undefined {
  const lost = claims.find(({ status }) => status?.phase === 'Lost');
  if (!lost) return undefined;
  return { reason: 'ClaimLost', message: `${name}: the volume of the claim ${lost.metadata.name} is lost` };
}

function podProblem(name: string, pod: Pod): Problem | undefined {
  const { conditions = [], initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const unscheduled = conditions.find(({ type, reason }) => type === 'PodScheduled' && reason === 'Unschedulable');
  if (unscheduled) return schedulingProblem(name, unscheduled.message ?? '');
  return [...initContainerStatuses, ...containerStatuses]
    .map((container) => containerProblem(name, container))
    .find((found) => found !== undefined);
}

function schedulingProblem(name: string, text: string): Problem | undefined {
  if (/unbound .*PersistentVolumeClaims/i.test(text)) {
    return { reason: 'UnboundClaim', message: `${name} waits for its volume: ${quote(text)}` };
  }
  return { reason: 'Unschedulable', message: `no node accepts the pod of ${name}: ${quote(text)}` };
}

const IMAGE_PROBLEMS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'ImageInspectError',
]);
const START_PROBLEMS = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);

function containerProblem(name: string, container: ContainerStatus): Problem | undefined {
  const { reason = '', message = '' } = container.state?.waiting ?? {};
  if (IMAGE_PROBLEMS.has(reason)) {
    // The two reasons alternate and mean the same.
    const steady = reason === 'ErrImagePull' ? 'ImagePullBackOff' : reason;
    return {
      reason: steady,
      message: `the image ${container.image} of ${name} can not be pulled: ${quote(pullError(message))}`,
    };
  }
  if (START_PROBLEMS.has(reason)) return { reason, message: `${name} can not be started: ${quote(message)}` };
  if (reason !== 'CrashLoopBackOff' && (container.ready || (container.restartCount ?? 0) < RESTARTS)) return undefined;
  const { exitCode, reason: why } = container.state?.terminated ?? container.lastState?.terminated ?? {};
  const because = why && why !== 'Error' ? ` (${why})` : '';
  return {
    reason: 'CrashLoopBackOff',
    message: `${name} keeps exiting, last with exit code ${exitCode}${because}`,
  };
}

/** Removes the kubelet's words around the runtime's message: they differ from one look to the next. */
const pullError = (message: string) =>
  message.replace(/^Back-off pulling image "[^"]*": /, '').replace(/^ErrImagePull: /, '');

/** Returns the API's error for a pod that the controller could not create. */
function refusal(name: string, { status }: Workload): Problem | undefined {
  const failure = status?.conditions?.find(({ type, status: is }) => type === 'ReplicaFailure' && is === 'True');
  const text = failure?.message ?? '';
  // A new namespace has no service account for a moment.
  if (!failure || /service account/i.test(text)) return undefined;
  const reason = /exceeded quota/.test(text) ? 'QuotaExceeded' : (failure.reason ?? 'FailedCreate');
  return { reason, message: `the API server refuses the pod of ${name}: ${quote(text)}` };
}

function stall(name: string, { status }: Workload): Problem | undefined {
  const stalled = status?.conditions?.find(({ type, status: is }) => type === 'Progressing' && is === 'False');
  if (!stalled) return undefined;
  const reason = stalled.reason ?? 'ProgressDeadlineExceeded';
  return { reason, message: `${name} did not become ready in time: its probe fails, see its log` };
}

function stageOf({ spec, status = {} }: Workload, pods: readonly Pod[]): string {
  const wanted = spec?.replicas ?? 1;
  if (wanted === 0) return `${pods.length || (status.replicas ?? 0)} pods still run`;
  const waiting = pods
    .flatMap((pod) => pod.status?.containerStatuses ?? [])
    .map(({ state }) => state?.waiting?.reason)
    .find((reason) => reason !== undefined);
  if (waiting) return waiting;
  const started = pods.filter(({ status: of }) => of?.phase === 'Running').length;
  return started > 0
    ? `its pod runs and is not ready yet`
    : `${status.updatedReplicas ?? 0} of ${wanted} pods are made`;
}

const quote = (text: string) => text.replace(/\s+/g, ' ').trim().slice(0, QUOTE_LENGTH);
