/** Reads the leading operator's Prometheus metrics through the API server. */

import type { ClusterPlatform } from '@slipway/e2e/cluster/platform.js';
import { kubectl } from '@slipway/e2e/kubectl.js';
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';

const REQUESTS = 'slipway_kubernetes_requests_total';

export interface OperatorSample {
  pod: string;
  atSeconds: number;
  memoryMiB: number;
  cpuSeconds: number;
  /** Number of requests since the start, by method and resource. */
  requests: Map<string, number>;
}

/** Samples the leading operator; the others have the same caches and write nothing. */
export async function sampleOperator({ kubeconfig }: ClusterPlatform): Promise<OperatorSample> {
  const inSystem = (...args: string[]) => kubectl(kubeconfig, ['-n', SYSTEM_NAMESPACE, ...args]);
  const labelSelector = `app.kubernetes.io/name=${PROGRAMS.operator}`;
  const names = await inSystem('get', 'pods', '-l', labelSelector, '-o', 'name');
  const pods = names.split('\n').filter(Boolean);
  for (const name of pods) {
    const pod = name.replace('pod/', '');
    const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/pods/${pod}:8080/proxy/metrics`;
    const text = await kubectl(kubeconfig, ['get', '--raw', path]);
    if (single(text, 'slipway_operator_leading') === 1) return sampleOf(pod, text);
  }
  throw new Error(`none of ${pods.length} operators leads`);
}

function sampleOf(pod: string, text: string): OperatorSample {
  const requests = new Map<string, number>();
  for (const [, labels, value] of text.matchAll(new RegExp(`^${REQUESTS}\\{(.*)\\} (\\S+)$`, 'gm'))) {
    const label = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(labels as string)?.[1];
    const key = `${label('method')} ${label('resource')}`;
    requests.set(key, (requests.get(key) ?? 0) + Number(value));
  }
  return {
    pod,
    atSeconds: performance.now() / 1000,
    memoryMiB: single(text, 'process_resident_memory_bytes') / 1024 ** 2,
    cpuSeconds: single(text, 'process_cpu_seconds_total'),
    requests,
  };
}

function single(text: string, name: string): number {
  const match = new RegExp(`^${name} (\\S+)$`, 'm').exec(text);
  if (!match) throw new Error(`the operator’s metrics have no ${name}`);
  return Number(match[1]);
}

/** Returns the number of requests between two samples of one pod. */
export function requestsBetween(before: OperatorSample, after: OperatorSample): Record<string, number> {
  if (before.pod !== after.pod) throw new Error(`the leader changed from ${before.pod} to ${after.pod}`);
  const grown = [...after.requests].map(([key, count]) => [key, count - (before.requests.get(key) ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, count]) => count > 0));
}
