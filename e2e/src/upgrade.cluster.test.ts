/**
 * Tests an upgrade of a cluster of an earlier release with one kubectl apply. Keys, logins, data and tokens must stay.
 */
import { existsSync } from 'node:fs';
import { test } from 'uvu';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { uninstall } from './cluster/installation.js';
import { startOnCluster } from './cluster/platform.js';
import { KUBE, testClusterKubeconfig } from './cluster/test-cluster.js';
import { unpackCluster } from './upgrade/cluster-archive.js';
import { readStateFile, storedFixtures } from './upgrade/fixtures.js';
import { checkState } from './upgrade/written-state.js';

const cluster = givenCluster();
const isTestCluster = cluster && existsSync(KUBE) && cluster.kubeconfig === (await testClusterKubeconfig());
if (cluster && !isTestCluster)
  console.log('# skipped: only the etcd and the volumes of the test cluster can be written to');
for (const fixture of cluster && isTestCluster ? await storedFixtures('cluster') : []) {
  test(`a cluster of release ${fixture.release} is upgraded with its keys, data, accounts and tokens`, async () => {
    const { kubeconfig, overlay } = cluster as NonNullable<typeof cluster>;
    try {
      await unpackCluster(fixture.archive, kubeconfig);
      const platform = await startOnCluster(kubeconfig, overlay);
      try {
        await checkState(platform, await readStateFile(fixture));
      } finally {
        await platform.close();
      }
    } finally {
      await uninstall(ROOT, kubeconfig, overlay);
    }
  });
}

test.run();
