import { MOST_PODS } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { authPool, heldByDataPlane, LISTENING, limitOf, restPool, SURGE } from './pools.js';

const allowed = Array.from({ length: MOST_PODS }, (_, index) => index + 1);

test('all pods of auth and one more together never ask for more than Postgres gives their role', () => {
  for (const replicas of allowed) {
    assert.ok(authPool(replicas) >= 1);
    assert.ok(authPool(replicas) * (replicas + SURGE) <= limitOf('authAdmin'), `${replicas} pods`);
  }
});

test('all pods of rest and one more, each with its listener, leave the data plane what it needs of their role', () => {
  for (const replicas of allowed) {
    assert.ok(restPool(replicas) >= 1);
    const held = (restPool(replicas) + LISTENING) * (replicas + SURGE);
    assert.ok(held + heldByDataPlane <= limitOf('authenticator'), `${replicas} pods`);
  }
});

test('a pod that is alone has more than each of several', () => {
  assert.ok(authPool(1) > authPool(MOST_PODS));
  assert.ok(restPool(1) > restPool(MOST_PODS));
});

test.run();
