/**
 * Benchmark on a real cluster: the time until a project is healthy, for each way in which projects run there, and the
 * cost of the idle operator.
 */

import type { Plan } from '@slipway/crds';
import { type FoundCluster, findCluster } from '@slipway/e2e/cluster/find.js';
import { type ClusterPlatform, startOnCluster } from '@slipway/e2e/cluster/platform.js';
import { Management } from '@slipway/e2e/management.js';
import { type Bench, type BenchContext, type BenchResult, chosen, type Table, type Target } from '../bench.js';
import { median, percentile } from '../measure/rounds.js';
import { decimals, whole } from '../report/table.js';
import { deleteAll, timesToHealthy } from './provisioning.js';
import { type SteadyState, steadyState } from './steady-state.js';

interface Way {
  name: string;
  plan: Plan;
  count: number;
  targetSeconds: number;
}

const WAYS: Way[] = [
  { name: 'pooled', plan: 'free', count: 10, targetSeconds: 1 },
  { name: 'deployments', plan: 'starter', count: 10, targetSeconds: 8 },
  { name: 'own-postgres', plan: 'pro', count: 5, targetSeconds: 20 },
];
const STEADY = 'steady-state';
const MOST_REQUESTS_PER_SECOND = 1;

export const cluster: Bench = async (context) => {
  const target = await findCluster({ given: context.kubeconfig, kind: false, say: context.say });
  if ('refused' in target) throw new Error(target.refused);
  if ('missing' in target) return { tables: [], targets: [], skipped: [target.missing], data: undefined };
  try {
    await target.loadImages();
    return await measureOn(target, context);
  } finally {
    await target.close();
  }
};

async function measureOn({ kubeconfig, overlay, name }: FoundCluster, context: BenchContext): Promise<BenchResult> {
  context.say(`installing on ${name}`);
  const platform = await startOnCluster(kubeconfig, overlay);
  try {
    return await measure(platform, context);
  } finally {
    await platform.close();
  }
}

async function measure(platform: ClusterPlatform, context: BenchContext): Promise<BenchResult> {
  const parts = chosen([...WAYS.map(({ name }) => name), STEADY], (name) => name, context.only);
  const person = await Management.register(platform);
  const times: Record<string, number[]> = {};
  let steady: SteadyState | undefined;
  try {
    if (parts.includes(STEADY)) {
      steady = await steadyState(platform, person, context);
      await deleteAll(person);
    }
    for (const { name, plan, count } of WAYS.filter((way) => parts.includes(way.name))) {
      context.say(`${name}: ${count} projects, one by one`);
      times[name] = await timesToHealthy(person, plan, count);
      await deleteAll(person);
    }
  } finally {
    await deleteAll(person);
  }
  return {
    tables: [provisioningTable(times), ...(steady ? [steadyTable(steady)] : [])],
    targets: [...provisioningTargets(times), ...(steady ? steadyTargets(steady) : [])],
    skipped: [],
    data: { times, steady },
  };
}

function provisioningTable(times: Record<string, number[]>): Table {
  const rows = Object.entries(times).map(([name, values]) => [
    name,
    String(values.length),
    ...[0.5, 0.95, 1].map((share) => decimals(percentile(values, share))),
  ]);
  return {
    title: 'POST /projects to healthy on a cluster',
    head: ['way', 'projects', 'p50 s', 'p95 s', 'longest s'],
    rows,
  };
}

function steadyTable({
  projects,
  seconds,
  requests,
  requestsPerSecond,
  writes,
  cpuShare,
  memoryMiB,
}: SteadyState): Table {
  const rows = [
    [
      `requests in ${whole(seconds)} s`,
      Object.entries(requests)
        .map(([key, count]) => `${count} ${key}`)
        .join(', '),
    ],
    ['requests/s', decimals(requestsPerSecond)],
    ['writes beside the lease', String(writes)],
    ['share of a core', decimals(cpuShare, 3)],
    ['memory with no project, MiB', whole(memoryMiB.empty)],
    [`memory with ${projects}, MiB`, whole(memoryMiB.full)],
    ['memory a project, KiB', whole(memoryMiB.kibibytesPerProject)],
  ];
  return { title: `The operator at rest, ${projects} pooled projects`, head: ['what', 'measured'], rows };
}

const provisioningTargets = (times: Record<string, number[]>): Target[] =>
  WAYS.filter(({ name }) => times[name]).map(({ name, targetSeconds }) => ({
    what: `${name}: p50, s`,
    value: median(times[name] as number[]),
    target: targetSeconds,
    bound: 'at most',
  }));

const steadyTargets = ({ requestsPerSecond, writes }: SteadyState): Target[] => [
  { what: 'at rest: requests/s', value: requestsPerSecond, target: MOST_REQUESTS_PER_SECOND, bound: 'at most' },
  { what: 'at rest: writes', value: writes, target: 0, bound: 'at most' },
];
