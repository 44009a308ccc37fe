/**
 * Runs the chaos suite on a real cluster. The suite's own operators replace the installed ones, with the same rights.
 */

import { chaosSuite } from '@slipway/operator/chaos/chaos.suite.js';
import { test } from 'uvu';
import { type ClusterStage, startClusterStage } from './cluster/chaos-stage.js';
import { givenCluster } from './cluster/given.js';

const cluster = givenCluster();
if (cluster) {
  let stage: ClusterStage;
  test.before(async () => {
    stage = await startClusterStage(cluster);
  });
  test.after(async () => {
    await stage?.close();
  });
  chaosSuite(test, () => stage);
}
test.run();
