/** Reads the leading operator's Prometheus metrics through the API server. */

import { CoreV1Api } from '@kubernetes/client-node';
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import type { ClusterPlatform } from '@slipway/e2e/cluster/platform.js';

const REQUESTS = 'slipway_kubernetes_requests_total';

export interface OperatorSample {
  pod: string;
  atSeconds: number;
  memoryMiB: number;
  cpuSeconds: number;
  /** So far, by method and resource. */
  requests: Map<string, number>;
}

/** Samples the operator that leads; the others have the same caches and write nothing. */
export async function sampleOperator({ config }: ClusterPlatform): Promise<OperatorSample> {
  const api = config.makeApiClient(CoreV1Api);
  const labelSelector = `app.kubernetes.io/name=${PROGRAMS.operator}`;
  const { items } = await api.listNamespacedPod({ namespace: SYSTEM_NAMESPACE, labelSelector });
  for (const { metadata } of items) {
    const pod = metadata?.name as string;
    const text = await api.connectGetNamespacedPodProxyWithPath({
      name: `${pod}:8080`,
      namespace: SYSTEM_NAMESPACE,
      path: 'metrics',
    });
    if (single(text, 'slipway_operator_leading') === 1) return sampleOf(pod, text);
  }
  throw new Error(`none of ${items.length} operators leads`);
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
  const found = new RegExp(`^${name} (\\S+)$`, 'm').exec(text);
  if (!found) throw new Error(`the operator does not tell ${name}`);
  return Number(found[1]);
}

/** Returns the requests between two samples of one pod. */
export function requestsBetween(before: OperatorSample, after: OperatorSample): Record<string, number> {
  if (before.pod !== after.pod) throw new Error(`the leader changed from ${before.pod} to ${after.pod}`);
  const grown = [...after.requests].map(([key, count]) => [key, count - (before.requests.get(key) ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, count]) => count > 0));
}
