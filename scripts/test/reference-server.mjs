/**
 * Ends the real API server that apiserver/src/reference-kubeconfig.ts starts for test files, if it did not run before
 * them. Called by scripts/test.mjs.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { root } from '../prepare.mjs';

const KUBE = path.join(root, '../shared/kube/kube');
/** The lock that apiserver/src/reference-kubeconfig.ts and e2e/src/cluster/test-cluster.ts take too. */
const LOCK = '/tmp/slipway-reference-server.lock';

const pidFolder = () =>
  path.join(path.dirname(execFileSync(KUBE, ['env'], { encoding: 'utf8' }).trim().replace(/^.*=/, '')), 'run');

/** Returns a function that ends the server after the tests. */
export function endReferenceServerAfter() {
  const runs = (part) => existsSync(path.join(pidFolder(), `${part}.pid`));
  if (!existsSync(KUBE) || runs('kube-apiserver')) return () => undefined;
  return () => {
    if (runs('kube-apiserver') && !runs('kubelet')) execFileSync('flock', ['--close', LOCK, KUBE, 'down']);
  };
}
