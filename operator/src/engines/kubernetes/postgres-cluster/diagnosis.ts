/** Why a cluster's servers don't run, in the words of their pods. Pure. */
import type { ContainerStatus, Pod } from '../children/kinds.js';
import type { ClusterState } from './cluster.js';

/** While a container is made, this is no trouble. */
const USUAL = ['ContainerCreating', 'PodInitializing'];

/** Undefined: nothing is wrong with it, as far as it says. */
export function troubleOf({ metadata, status = {} }: Pod): ClusterState | undefined {
  for (const container of status.containerStatuses ?? []) {
    const trouble = troubleOfContainer(metadata.name, container);
    if (trouble) return trouble;
  }
  const scheduled = status.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status !== 'False') return undefined;
  return { state: 'progressing', message: `${metadata.name}: ${scheduled.reason}: ${scheduled.message}` };
}

function troubleOfContainer(pod: string, { state, lastState }: ContainerStatus): ClusterState | undefined {
  const waiting = state?.waiting;
  if (!waiting?.reason || USUAL.includes(waiting.reason)) return undefined;
  const ended = lastState?.terminated;
  const words = [waiting.message, ended && `it ended with ${ended.exitCode} (${ended.reason})`].filter(Boolean);
  return { state: 'failed', reason: waiting.reason, message: `${pod}: ${waiting.reason}: ${words.join('; ')}` };
}
