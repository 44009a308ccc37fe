/**
 * Determines the progress of a build. Pure. In: the statuses of its pod, and the marks in its log. Out: steps, and the
 * end of the build if it has ended.
 */
import { type Ending, readEnding } from '@slipway/kaniko-build-wrapper';
import type { KubeObject } from '@slipway/kubernetes';
import type { BuildState, BuildStepState } from '../../../capabilities/index.js';
import type { BuildContainer } from './build-job.js';

export interface BuildPod extends KubeObject {
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    initContainerStatuses?: ContainerStatus[];
    containerStatuses?: ContainerStatus[];
  };
}

interface ContainerStatus {
  name: string;
  state?: {
    waiting?: { reason?: string; message?: string };
    running?: { startedAt?: string };
    terminated?: { exitCode: number; reason?: string; message?: string; startedAt?: string; finishedAt?: string };
  };
}

/** The marks in the log of Kaniko: lines that our own program prints. */
export interface LogMarks {
  installingAt?: Date;
  buildingAt?: Date;
  /** The exit code of the tenant's command. */
  exitCode?: number;
  /** The reason why the output was not collected, for the owner. */
  refusal?: string;
}

export type JobEnd =
  | { kind: 'published'; bytes?: number }
  | { kind: 'unneeded' }
  | { kind: 'failed'; reason: string; message: string; retry: boolean };

export const statusOf = ({ status = {} }: BuildPod, name: BuildContainer): ContainerStatus | undefined =>
  [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])].find((each) => each.name === name);

export const hasStarted = (pod: BuildPod, name: BuildContainer): boolean => {
  const { running, terminated } = statusOf(pod, name)?.state ?? {};
  return running !== undefined || terminated !== undefined;
};

export function stateOfPod(pod: BuildPod | undefined, marks: LogMarks): Omit<BuildState, 'end'> {
  const [clone, build] = (['clone', 'build'] as const).map((name) => pod && statusOf(pod, name)?.state);
  const cloned = endingOf(clone);
  const { commit, detected } = cloned?.kind === 'cloned' ? cloned : {};
  return {
    steps: stepsOf({ clone, build, publish: pod && statusOf(pod, 'publish')?.state }, marks),
    hasCredentials: clone?.terminated !== undefined,
    ...(commit === undefined ? {} : { commit }),
    ...(detected === undefined ? {} : { detected }),
  };
}

type State = ContainerStatus['state'];

function stepsOf(
  { clone, build, publish }: Record<BuildContainer, State>,
  { installingAt, buildingAt, exitCode }: LogMarks,
): BuildStepState[] {
  const cloning = clone?.terminated ?? clone?.running;
  if (cloning?.startedAt === undefined) return [];
  const steps: BuildStepState[] = [{ name: 'Cloning', startedAt: new Date(cloning.startedAt), ...endOf(clone) }];
  const begun = build?.terminated ?? build?.running;
  if (begun?.startedAt === undefined) return steps;
  const startedAt = new Date(begun.startedAt);
  const last = { ...endOf(build), ...(exitCode === undefined ? {} : { exitCode }), ...publishedAt(publish) };
  if (installingAt === undefined) return [...steps, { name: 'Building', startedAt, ...last }];
  if (buildingAt === undefined) return [...steps, { name: 'Installing', startedAt, ...last }];
  const installed = { name: 'Installing' as const, startedAt, finishedAt: buildingAt, exitCode: 0 };
  return [...steps, installed, { name: 'Building', startedAt: buildingAt, ...last }];
}

/** Returns the end of the publication, which is a part of the last step. */
function publishedAt(publish: State): Partial<BuildStepState> {
  const { finishedAt } = publish?.terminated ?? {};
  return finishedAt === undefined ? {} : { finishedAt: new Date(finishedAt) };
}

function endOf(state: State): Partial<BuildStepState> {
  const { finishedAt, exitCode } = state?.terminated ?? {};
  return finishedAt === undefined ? {} : { finishedAt: new Date(finishedAt), exitCode: exitCode as number };
}

const endingOf = (state: State): Ending | undefined => readEnding(state?.terminated?.message);

/**
 * Returns the end of a build. Undefined: it runs. `failure`: the reason for which Kubernetes counts the Job as failed.
 */
export function endOfJob(pod: BuildPod | undefined, failure: string | undefined, marks: LogMarks): JobEnd | undefined {
  const step = stateOfPod(pod, marks).steps.at(-1)?.name ?? 'Cloning';
  const failed = (message: string, reason = `${step}Failed`): JobEnd => ({
    kind: 'failed',
    reason,
    message,
    retry: false,
  });
  if (failure === 'DeadlineExceeded') return failed('The build took longer than its plan allows.');
  const { phase, reason, message } = pod?.status ?? {};
  if (phase === 'Succeeded') return { kind: 'published', ...sizeOf(pod && statusOf(pod, 'publish')?.state) };
  if (phase !== 'Failed' && failure === undefined) return pod && refusedImage(pod);
  // The kubelet reports by these words that disk was used up. Another eviction has other words, as when a node shuts
  // down.
  if (reason === 'Evicted' && /ephemeral|EmptyDir/.test(message ?? '')) {
    return failed('The build used more disk than its plan allows.');
  }
  const state = (name: BuildContainer) => pod && statusOf(pod, name)?.state;
  if (endingOf(state('clone'))?.kind === 'unneeded') return { kind: 'unneeded' };
  const end = endOfClone(state('clone')) ?? endOfBuild(state('build'), marks) ?? endOfPublication(state('publish'));
  if (end === undefined) return NOT_RUN;
  return end.isRefused ? failed(end.message, 'OutputRefused') : failed(end.message);
}

/** A failure of the build itself, with a message for the owner. */
interface OwnFailure {
  message: string;
  isRefused?: boolean;
}

/** The end of a build that failed because of the cluster, not because of its own commands. */
export const NOT_RUN = {
  kind: 'failed' as const,
  reason: 'BuilderFailed',
  message: 'the cluster could not run the build',
  retry: true,
};

/** Returns the failure of the clone. Without a message the container itself failed, and a retry may succeed. */
function endOfClone(state: State): OwnFailure | undefined {
  const ending = endingOf(state);
  return ending?.kind === 'failed' ? { message: ending.message } : undefined;
}

function endOfBuild(state: State, { exitCode, refusal }: LogMarks): OwnFailure | undefined {
  const { terminated } = state ?? {};
  if (!terminated || terminated.exitCode === 0) return undefined;
  if (terminated.reason === 'OOMKilled') return { message: 'The build used more memory than its plan allows.' };
  if (refusal !== undefined) return { message: refusal, isRefused: true };
  const code = exitCode ?? terminated.exitCode;
  return { message: `The command ended with exit code ${code}. The log has its output.` };
}

/** Returns the size of the published files, from the publication's own message. */
function sizeOf(state: State): { bytes?: number } {
  const ending = endingOf(state);
  const bytes = ending?.kind === 'published' ? ending.bytes : undefined;
  return Number.isSafeInteger(bytes) ? { bytes: bytes as number } : {};
}

function endOfPublication(state: State): OwnFailure | undefined {
  const ending = endingOf(state);
  return ending?.kind === 'refused' ? { message: ending.message, isRefused: true } : undefined;
}

/** Returns a failure if an image can't be pulled. Otherwise the build would wait until its deadline. */
function refusedImage({ status = {} }: BuildPod): JobEnd | undefined {
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const wrong = all.find(({ state }) => UNUSABLE.has(state?.waiting?.reason ?? ''));
  return wrong && { ...NOT_RUN, message: `the image of the container ${wrong.name} can not be used` };
}

const UNUSABLE = new Set(['ErrImageNeverPull', 'InvalidImageName', 'ImagePullBackOff', 'CreateContainerError']);
