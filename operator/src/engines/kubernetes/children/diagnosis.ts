/**
 * Why a Deployment or StatefulSet is not as it should be, in the words of its pods and of the API: pure. In: the
 * workload and its pods, as they were last seen. Out: an outcome; failed for what does not heal by itself soon. Called
 * by whatever has pods.
 */
import type { KubeObject } from '../../../runtime/kube.js';
import type { EngineOutcome } from '../../engine.js';
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
/** Changes of the pods are told by their watch; this is for what no object tells. */
const LOOK_AGAIN_MS = 5_000;
/** Characters of a foreign message that are quoted. */
const QUOTE_LENGTH = 240;
/** Restarts after which a container that is not ready counts as one that does not start. */
const RESTARTS = 2;

/** All pods that are wanted are there, of the newest template, and take requests. */
export function isUpToDate({ metadata, spec, status = {} }: Workload): boolean {
  const wanted = spec?.replicas ?? 1;
  const { observedGeneration = 0, replicas = 0, updatedReplicas = 0, readyReplicas = 0 } = status;
  const available = status.availableReplicas ?? 0;
  if (observedGeneration < (metadata.generation ?? 0)) return false;
  if (wanted === 0) return replicas === 0;
  // With one of an older template beside it, the ready one may be that.
  if (replicas > updatedReplicas) return false;
  return updatedReplicas >= wanted && readyReplicas >= wanted && available >= wanted;
}

const ENDED = new Set(['Succeeded', 'Failed']);

/**
 * No pod of an older template serves beside those of an up-to-date one. Those that are leaving are in no count of the
 * status, and serve the connections that they have; one more than wanted is such a one, of which the watch has not told
 * yet.
 */
export function areAlone({ spec }: Workload, pods: readonly Pod[]): boolean {
  const running = pods.filter(({ status }) => !ENDED.has(status?.phase ?? ''));
  return running.length <= (spec?.replicas ?? 1) && running.every(({ metadata }) => !metadata.deletionTimestamp);
}

/** Whether it takes requests at all, be it by pods of an older template. */
export const isServing = ({ status }: Workload) => (status?.availableReplicas ?? 0) > 0;

/** `name`: what its pods are called in the message. */
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

/** A claim waits for its first consumer as long as there is no pod, which is no problem. */
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

function schedulingProblem(name: string, said: string): Problem | undefined {
  if (/unbound .*PersistentVolumeClaims/i.test(said)) {
    return { reason: 'UnboundClaim', message: `${name} waits for its volume: ${quote(said)}` };
  }
  return { reason: 'Unschedulable', message: `no node takes the pod of ${name}: ${quote(said)}` };
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
    // The two take turns; what they say is one thing.
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
    message: `${name} ends again and again, last with exit code ${exitCode}${because}`,
  };
}

/** Kubelet's words around the runtime's differ from one look to the next. */
const pullError = (message: string) =>
  message.replace(/^Back-off pulling image "[^"]*": /, '').replace(/^ErrImagePull: /, '');

/** Returns the API's error for a pod that the controller could not create. */
function refusal(name: string, { status }: Workload): Problem | undefined {
  const failure = status?.conditions?.find(({ type, status: is }) => type === 'ReplicaFailure' && is === 'True');
  const said = failure?.message ?? '';
  // A namespace of this second has no service account yet.
  if (!failure || /service account/i.test(said)) return undefined;
  const reason = /exceeded quota/.test(said) ? 'QuotaExceeded' : (failure.reason ?? 'FailedCreate');
  return { reason, message: `the API server refuses the pod of ${name}: ${quote(said)}` };
}

function stall(name: string, { status }: Workload): Problem | undefined {
  const stalled = status?.conditions?.find(({ type, status: is }) => type === 'Progressing' && is === 'False');
  if (!stalled) return undefined;
  const reason = stalled.reason ?? 'ProgressDeadlineExceeded';
  return { reason, message: `${name} has not become ready in the time that it has: its probe fails, see its log` };
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
