/** A cluster made by kind, with kind-config.yaml, if it does not exist, and removed afterwards. Needs docker. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { kubectl } from '../kubectl.js';
import type { FoundCluster } from './find.js';
import { type ImageStore, loadImages } from './images.js';
import { run } from './run.js';
import { DOCKERFILE } from './sources.js';

const NAME = 'slipway';
/** Manifest of the ingress controller of docs/cluster.md. */
const INGRESS_CONTROLLER =
  'https://raw.githubusercontent.com/kubernetes/ingress-nginx/main/deploy/static/provider/kind/deploy.yaml';

export async function useKind(root: string, say: (text: string) => void): Promise<FoundCluster> {
  const wasThere = (await run('kind', ['get', 'clusters'])).split('\n').includes(NAME);
  if (!wasThere) {
    await run('kind', ['create', 'cluster', '--name', NAME, '--config', path.join(root, 'kind-config.yaml')]);
    say(`made the kind cluster ${NAME}`);
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-kind-'));
  const kubeconfig = path.join(folder, 'kubeconfig');
  await writeFile(kubeconfig, await run('kind', ['get', 'kubeconfig', '--name', NAME]), { mode: 0o600 });
  if (!wasThere) await startIngressController(kubeconfig);
  const close = async () => {
    await rm(folder, { recursive: true, force: true });
    if (!wasThere) await run('kind', ['delete', 'cluster', '--name', NAME]);
  };
  return {
    ...{ name: `the kind cluster ${NAME}`, kubeconfig, overlay: 'kind', close },
    loadImages: () => loadImages(root, kubeconfig, () => dockerImages(root), say),
  };
}

const dockerImages = (root: string): ImageStore => ({
  prepare: async () => {},
  build: async (target, tag) => {
    await run('docker', ['build', '--tag', tag, '--file', path.join(root, DOCKERFILE), '--target', target, root]);
    await run('kind', ['load', 'docker-image', tag, '--name', NAME]);
    return 'built and loaded';
  },
  finish: async () => {},
});

async function startIngressController(kubeconfig: string): Promise<void> {
  await kubectl(kubeconfig, ['apply', '-f', INGRESS_CONTROLLER]);
  const controller = ['rollout', 'status', 'deployment/ingress-nginx-controller', '--timeout=300s'];
  await kubectl(kubeconfig, ['-n', 'ingress-nginx', ...controller]);
}
