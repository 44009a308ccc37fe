/**
 * Operations of an administrator on a project in use, on a real cluster: with pods of its own, and with a Postgres of
 * its own.
 */
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { PLANS_WITH_PODS } from './cluster/plans.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { operations } from './operations.suite.js';

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
  });
  test.after(async () => {
    await platform?.close();
  });
  for (const operated of PLANS_WITH_PODS) operations(test, () => platform, operated);
}

test.run();
