/**
 * For tests only: finds and starts the real kube-apiserver, if the machine has one. Out: the path of its kubeconfig.
 * Without one, logs a line and returns undefined.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const KUBE = fileURLToPath(new URL('../../../shared/kube/kube', import.meta.url));
/**
 * File of the lock that serialises starts, which would otherwise interfere. It is not in TMPDIR, because each test file
 * has another TMPDIR.
 */
const LOCK = '/tmp/slipway-reference-server.lock';

export function referenceKubeconfig(): string | undefined {
  if (!existsSync(KUBE)) {
    console.log('# skipped: no real kube-apiserver on this machine; the cases run against our server alone');
    return undefined;
  }
  // Without --close, processes that this command leaves running would keep the lock for ever.
  const printed = execFileSync('flock', ['--close', LOCK, KUBE, 'up', '--api-only'], {
    ...{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
    // Other test files use the server too. The runner ends it after the last of them.
    env: { ...process.env, SLIPWAY_OUTLIVES_TEST: '1' },
  });
  return printed.trim().split('\n').at(-1);
}
