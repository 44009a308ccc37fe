/**
 * For tests only: finds and starts the real kube-apiserver, where the machine has one.
 * Out: the path of its kubeconfig; undefined, and a line that says so, where there is none.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const KUBE = fileURLToPath(new URL('../../../shared/kube/kube', import.meta.url));
/** Two starts at once would trip over each other. */
const LOCK = path.join(tmpdir(), 'slipway-reference-server.lock');

export function referenceKubeconfig(): string | undefined {
  if (!existsSync(KUBE)) {
    console.log('# skipped: no real kube-apiserver on this machine; expectations are held against our server alone');
    return undefined;
  }
  // Without --close what it leaves running would hold the lock for ever.
  const printed = execFileSync('flock', ['--close', LOCK, KUBE, 'up', '--api-only'], {
    ...{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
  });
  return printed.trim().split('\n').at(-1);
}
