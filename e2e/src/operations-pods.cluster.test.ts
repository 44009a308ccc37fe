/** Tests an administrator's operations on a project in use, on a real cluster, with pods for each project. */
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { WITH_PODS } from './cluster/plans.js';
import { platformOf } from './cluster/platform.js';
import { operations } from './operations.suite.js';

const cluster = givenCluster();
if (cluster) {
  operations(test, platformOf(test, cluster), WITH_PODS);
}

test.run();
