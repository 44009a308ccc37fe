/** One tenant's attacks beside another tenant's app, on a real cluster. */
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { SECONDS, siege } from './siege.suite.js';

const cluster = SECONDS ? givenCluster() : undefined;
if (!SECONDS) console.log('# skipped: SIEGE_SECONDS=6 runs the attacks beside a neighbour under load');
if (cluster && SECONDS) {
  let platform: ClusterPlatform;
  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
  });
  test.after(async () => {
    await platform?.close();
  });
  siege(test, () => platform, SECONDS);
}

test.run();
