/**
 * The real Kubernetes that some machines have beside this repository, for tests. It is started where it does not run,
 * and then ended again.
 */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FoundCluster } from './find.js';
import { loadImages } from './images.js';
import { run } from './run.js';
import { DOCKERFILE } from './sources.js';
import { wakeSchedulerForClaims } from './unbound-claims.js';

export const KUBE = fileURLToPath(new URL('../../../../shared/kube/kube', import.meta.url));
/** Two starts at once would trip over each other; also held by the tests that need the API server alone. */
const START_LOCK = path.join(tmpdir(), 'slipway-reference-server.lock');

/** Where it is, whether or not it runs. */
export async function testClusterKubeconfig(): Promise<string> {
  return (await run(KUBE, ['env'])).trim().replace('export KUBECONFIG=', '');
}

export async function useTestCluster(root: string, say: (text: string) => void): Promise<FoundCluster> {
  const kubeconfig = await testClusterKubeconfig();
  // Of one that is up, whichever of its parts has just been killed for a test.
  const ranBefore = existsSync(path.join(path.dirname(kubeconfig), 'run', 'kubelet.pid'));
  // Without --close what it leaves running would hold the lock for ever.
  const kube = (...args: string[]) => run('flock', ['--close', START_LOCK, KUBE, ...args]);
  // An API server alone may be left of other tests; the audit log, which some tests read, begins with the server.
  if (!ranBefore) await kube('down');
  await kube('up', ...(ranBefore ? [] : ['--audit']));
  if (!ranBefore) say('started the test cluster');
  await loadImages(
    root,
    kubeconfig,
    {
      prepare: async () => void (await run(KUBE, ['base'])),
      build: async (target, tag) => {
        // With layers kept, as the images have their first stages in common.
        await run(KUBE, ['build', tag, root, '-f', path.join(root, DOCKERFILE), '--target', target, '--layers']);
      },
    },
    say,
  );
  const letItSleep = wakeSchedulerForClaims(kubeconfig);
  const close = async () => {
    letItSleep();
    if (!ranBefore) await kube('down');
  };
  return { name: 'the test cluster', kubeconfig, overlay: 'test', close };
}
