/**
 * The real Kubernetes for tests, which some machines have beside this repository. If it does not run, it is started,
 * and stopped afterwards.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildahImages } from './buildah-images.js';
import type { FoundCluster } from './find.js';
import { loadImages } from './images.js';
import { run } from './run.js';
import { wakeSchedulerForClaims } from './unbound-claims.js';

export const KUBE = fileURLToPath(new URL('../../../../shared/kube/kube', import.meta.url));

/** Returns the kubeconfig, even if the cluster does not run. */
export async function testClusterKubeconfig(): Promise<string> {
  return (await run(KUBE, ['env'])).trim().replace('export KUBECONFIG=', '');
}

export async function useTestCluster(root: string, say: (text: string) => void): Promise<FoundCluster> {
  const kubeconfig = await testClusterKubeconfig();
  const ranBefore = await runsIn(path.dirname(kubeconfig));
  const kube = (...args: string[]) => run(KUBE, args);
  // Somebody may have left only an API server running. If the machine was switched off, the state is stale.
  if (!ranBefore) await kube('down');
  // Tests read the audit log. Restarting an API server without one would be too late once tests run.
  await kube('up', '--audit');
  if (!ranBefore) say('started the test cluster');
  // Tests that need no images run during the builds. They need little processor time.
  const images = (sources: string) =>
    buildahImages(root, sources, path.dirname(kubeconfig), (...args) => run('nice', [KUBE, ...args]));
  const letItSleep = wakeSchedulerForClaims(kubeconfig);
  const close = async () => {
    letItSleep();
    if (!ranBefore) await kube('down');
  };
  return {
    ...{ name: 'the test cluster', kubeconfig, overlay: 'test', close },
    loadImages: () => loadImages(root, kubeconfig, images, say),
  };
}

/** The parts of a test cluster that run pods. A test may just have killed one of them. */
const NODE_PARTS = ['kubelet', 'containerd'];

/** True if a node runs whose state is in this folder. The file with its process id survives a stop of the machine. */
export async function runsIn(folder: string): Promise<boolean> {
  const alive = await Promise.all(NODE_PARTS.map((part) => partRuns(folder, part)));
  return alive.includes(true);
}

async function partRuns(folder: string, part: string): Promise<boolean> {
  const read = (file: string) => readFile(file, 'utf8').catch(() => '');
  const pid = (await read(path.join(folder, 'run', `${part}.pid`))).trim();
  // Another program may have the number by now.
  return pid !== '' && (await read(path.join('/proc', pid, 'cmdline'))).includes(part);
}
