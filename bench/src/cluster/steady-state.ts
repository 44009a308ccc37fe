/**
 * Measures the memory of the operator with many pooled projects, and its requests to the Kubernetes API while nothing
 * changes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterPlatform } from '@slipway/e2e/cluster/platform.js';
import type { Management } from '@slipway/e2e/management.js';
import type { BenchContext } from '../bench.js';
import { requestsBetween, sampleOperator } from './operator-metrics.js';
import { createProject } from './provisioning.js';

const PROJECTS = 200;
const AT_ONCE = 8;
const POLL_MS = 100;
const QUIET_MS = 5_000;
const QUIET_TIMEOUT_MS = 120_000;
const WINDOW_MS = 60_000;

export interface SteadyState {
  projects: number;
  seconds: number;
  /** Number of requests, by method and resource. */
  requests: Record<string, number>;
  requestsPerSecond: number;
  /** Number of writes without those of the lease, which the leading operator renews. */
  writes: number;
  cpuShare: number;
  memoryMiB: { empty: number; full: number; kibibytesPerProject: number };
}

export async function steadyState(
  platform: ClusterPlatform,
  person: Management,
  { say }: BenchContext,
): Promise<SteadyState> {
  const empty = await untilQuiet(platform);
  say(`making ${PROJECTS} projects`);
  await createMany(person);
  const before = await untilQuiet(platform);
  say(`watching the operator for ${WINDOW_MS / 1000} s`);
  await sleep(WINDOW_MS);
  const after = await sampleOperator(platform);
  const requests = requestsBetween(before, after);
  const seconds = after.atSeconds - before.atSeconds;
  const count = (isCounted: (key: string) => boolean) =>
    Object.entries(requests).reduce((sum, [key, value]) => (isCounted(key) ? sum + value : sum), 0);
  return {
    projects: PROJECTS,
    seconds,
    requests,
    requestsPerSecond: count(() => true) / seconds,
    writes: count((key) => !key.startsWith('GET ') && !key.endsWith(' leases')),
    cpuShare: (after.cpuSeconds - before.cpuSeconds) / seconds,
    memoryMiB: {
      empty: empty.memoryMiB,
      full: after.memoryMiB,
      kibibytesPerProject: ((after.memoryMiB - empty.memoryMiB) * 1024) / PROJECTS,
    },
  };
}

/** Waits until the operator writes nothing but its lease, and returns the sample of that moment. */
async function untilQuiet(platform: ClusterPlatform) {
  const deadline = Date.now() + QUIET_TIMEOUT_MS;
  for (let before = await sampleOperator(platform); ; ) {
    await sleep(QUIET_MS);
    const after = await sampleOperator(platform);
    const requested = Object.keys(requestsBetween(before, after)).filter((key) => !/^GET | leases$/.test(key));
    if (requested.length === 0) return after;
    if (Date.now() > deadline) throw new Error(`the operator still sends writes: ${requested.join(', ')}`);
    before = after;
  }
}

async function createMany(person: Management): Promise<void> {
  let left = PROJECTS;
  const worker = async () => {
    while (left-- > 0) await createProject(person, 'free', POLL_MS);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
