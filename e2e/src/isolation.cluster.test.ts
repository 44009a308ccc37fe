/** Tests attacks of one customer on another on a real cluster, where each customer has its own pods. */
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { attack, type Place } from './isolation.suite.js';
import { kubectl } from './kubectl.js';

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  attack(
    test,
    async () => {
      platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
      return {
        platform,
        plan: 'starter',
        databases: ['postgres', 'template1'],
        written: () => podsLogs(cluster.kubeconfig),
        secrets: async () => [String((await platform.admin()).password)],
      };
    },
    async () => {
      await platform?.close();
    },
  );
}

/** Returns the logs and arguments of every pod that the platform made. */
async function podsLogs(kubeconfig: string): Promise<Place[]> {
  const all = ['-l', 'app.kubernetes.io/part-of=slipway'];
  const listed = await kubectl(kubeconfig, ['get', 'pods', '-A', ...all, '-o', 'json']);
  const { items } = JSON.parse(listed) as { items: { metadata: { name: string; namespace: string } }[] };
  const logs = items.map(async ({ metadata: { name, namespace } }): Promise<Place> => {
    // Pods of other projects may start or end between the list and the read.
    const text = await kubectl(kubeconfig, ['logs', '-n', namespace, name, '--all-containers']).catch(
      (error: Error) => {
        if (/NotFound|waiting to start/.test(error.message)) return '';
        throw error;
      },
    );
    return [`the log of ${namespace}/${name}`, text];
  });
  const pods: Place = [
    `the pods of ${SYSTEM_NAMESPACE} and of projects`,
    await kubectl(kubeconfig, ['describe', 'pods', '-A', ...all]),
  ];
  return [pods, ...(await Promise.all(logs))];
}

test.run();
