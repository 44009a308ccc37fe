/** Tests attacks of one tenant while another tenant's app is in use, on a real cluster. */
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { platformOf } from './cluster/platform.js';
import { logsOfPods } from './siege/long-turns.js';
import { siege } from './siege.suite.js';

const cluster = givenCluster();
if (cluster) siege(test, platformOf(test, cluster), 'cluster', logsOfPods(cluster.kubeconfig));

test.run();
