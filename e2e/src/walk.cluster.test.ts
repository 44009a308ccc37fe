/** Runs the walk on a real cluster, including the installation, once for each way in which projects run there. */

import { type Plan } from '@slipway/crds';
import { namespaceOf, PART_AUTH, PART_POSTGRES, PART_REST, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { PLANS } from './cluster/plans.js';
import { type ClusterPlatform, platformOf } from './cluster/platform.js';
import { walk } from './walk.suite.js';

const cluster = givenCluster();
if (cluster) {
  const platform = platformOf(test, cluster);
  for (const { plan, how } of PLANS) {
    const walked = {
      plan,
      how,
      observed: async (ref: string) => {
        const wanted = partsOf(platform(), plan).join();
        const areReady = async () => (await runningParts(platform(), ref)).join() === wanted || undefined;
        await until(areReady, `ready: ${wanted}`);
      },
      gone: async (ref: string) => {
        // Kubernetes releases a volume some time after its namespace is deleted.
        const isGone = async () => (await leftOnCluster(platform(), ref)).length === 0 || undefined;
        await until(isGone, `gone: ${await leftOnCluster(platform(), ref)}`);
      },
    };
    walk(test, platform, walked);
  }
}

/** Returns the parts of a project of the plan, according to the site's settings. */
function partsOf({ site }: ClusterPlatform, plan: Plan): string[] {
  const { placement, ownDatabase } = site.plans[plan];
  return [
    ...(placement === 'deployments' ? [PART_AUTH, PART_REST] : []),
    ...(ownDatabase ? [PART_POSTGRES] : []),
  ].sort();
}

/** Returns the names of the ready workloads in the project's namespace. */
async function runningParts({ kubeconfig }: ClusterPlatform, ref: string): Promise<string[]> {
  const listOf = (kind: string) => `/apis/apps/v1/namespaces/${namespaceOf(ref)}/${kind}`;
  const lists = await withClient(kubeconfig, (client) =>
    Promise.all(['deployments', 'statefulsets'].map((kind) => client.get<{ items: Workload[] }>(listOf(kind)))),
  );
  const ready = lists.flatMap(({ items }) => items.filter(({ status }) => status?.readyReplicas));
  return ready.map(({ metadata }) => metadata.name).sort();
}

interface Workload extends KubeObject {
  status?: { readyReplicas?: number };
}
interface PersistentVolume extends KubeObject {
  spec: { claimRef?: { namespace: string } };
}

/** Lists the project's objects outside of its namespace. */
async function leftOnCluster({ kubeconfig }: ClusterPlatform, ref: string): Promise<string[]> {
  const inSystem = `/apis/networking.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/ingresses`;
  const [ingresses, volumes] = await withClient(kubeconfig, (client) =>
    Promise.all([
      client.get<{ items: KubeObject[] }>(inSystem),
      client.get<{ items: PersistentVolume[] }>('/api/v1/persistentvolumes'),
    ]),
  );
  const namespace = namespaceOf(ref);
  return [
    ...ingresses.items.filter(({ metadata }) => metadata.name === namespace),
    ...volumes.items.filter(({ spec }) => spec.claimRef?.namespace === namespace),
  ].map(({ metadata }) => metadata.name);
}

test.run();
