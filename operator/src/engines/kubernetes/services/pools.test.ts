import { MOST_PODS } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { authPool, heldByDataPlane, LISTENING, limitOf, restPool, SURGE } from './pools.js';

const allowed = Array.from({ length: MOST_PODS }, (_, index) => index + 1);

test('the pools of all pods of auth, and of one more pod, fit into the connection limit of their role', () => {
  for (const replicas of allowed) {
    assert.ok(authPool(replicas) >= 1);
    assert.ok(authPool(replicas) * (replicas + SURGE) <= limitOf('authAdmin'), `${replicas} pods`);
  }
});

test('the pools of all pods of rest, and of one more pod, leave the data plane its connections', () => {
  for (const replicas of allowed) {
    assert.ok(restPool(replicas) >= 1);
    const held = (restPool(replicas) + LISTENING) * (replicas + SURGE);
    assert.ok(held + heldByDataPlane <= limitOf('authenticator'), `${replicas} pods`);
  }
});

test('a single pod has a larger pool than each of several', () => {
  assert.ok(authPool(1) > authPool(MOST_PODS));
  assert.ok(restPool(1) > restPool(MOST_PODS));
});

test.run();
