/** The walk on a real cluster, from its installation on: once for each way that projects run there. */
import { AppsV1Api, CoreV1Api, NetworkingV1Api } from '@kubernetes/client-node';
import { namespaceOf, PART_AUTH, PART_POSTGRES, PART_REST, type Plan, SYSTEM_NAMESPACE } from '@slipway/crds';
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { PLANS } from './cluster/plans.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { until } from './until.js';
import { walk } from './walk.suite.js';

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
  });
  test.after(async () => {
    await platform?.close();
  });
  for (const { plan, how } of PLANS) {
    const walked = {
      plan,
      how,
      observed: async (ref: string) => {
        const wanted = partsOf(platform, plan).join();
        const areReady = async () => (await runningParts(platform, ref)).join() === wanted || undefined;
        await until(`ready: ${wanted}`, areReady);
      },
      gone: async (ref: string) => {
        // Kubernetes frees a volume some time after the namespace that claimed it.
        const isGone = async () => (await leftOnCluster(platform, ref)).length === 0 || undefined;
        await until(`gone: ${await leftOnCluster(platform, ref)}`, isGone);
      },
    };
    walk(test, () => platform, walked);
  }
}

/** Returns the parts of a project of the plan, by the site's settings. */
function partsOf({ site }: ClusterPlatform, plan: Plan): string[] {
  const { placement, ownDatabase } = site.plans[plan];
  return [
    ...(placement === 'deployments' ? [PART_AUTH, PART_REST] : []),
    ...(ownDatabase ? [PART_POSTGRES] : []),
  ].sort();
}

/** Names of the workloads in the project's namespace that are ready. */
async function runningParts({ config }: ClusterPlatform, ref: string): Promise<string[]> {
  const api = config.makeApiClient(AppsV1Api);
  const namespace = namespaceOf(ref);
  const lists = await Promise.all([
    api.listNamespacedDeployment({ namespace }),
    api.listNamespacedStatefulSet({ namespace }),
  ]);
  const ready = lists.flatMap(({ items }) => items.filter(({ status }) => status?.readyReplicas));
  return ready.map(({ metadata }) => metadata?.name ?? '').sort();
}

/** Lists the project's objects outside of its namespace. */
async function leftOnCluster({ config }: ClusterPlatform, ref: string): Promise<string[]> {
  const ingresses = await config.makeApiClient(NetworkingV1Api).listNamespacedIngress({ namespace: SYSTEM_NAMESPACE });
  const volumes = await config.makeApiClient(CoreV1Api).listPersistentVolume();
  const namespace = namespaceOf(ref);
  return [
    ...ingresses.items.filter(({ metadata }) => metadata?.name === namespace),
    ...volumes.items.filter(({ spec }) => spec?.claimRef?.namespace === namespace),
  ].map(({ metadata }) => metadata?.name ?? '');
}

test.run();
