/**
 * The images of images/Dockerfile, built and loaded into a cluster that has none or older ones. In: the cluster, and
 * how one image gets there. What a cluster has is written in a ConfigMap of it, so it is forgotten together with the
 * images.
 */
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { kubectl } from '../kubectl.js';
import { hashOfSources } from './sources.js';

export const TARGETS = ['operator', 'api', 'dataplane', 'auth', 'rest'] as const;
export const tagOf = (target: string) => `slipway/${target}:dev`;

const RECORD = { name: 'slipway-test-images', namespace: 'default' };

export interface ImageStore {
  /** Prepares the base of the images, before the first of them. */
  prepare(): Promise<void>;
  build(target: string, tag: string): Promise<void>;
}

export async function loadImages(
  root: string,
  kubeconfig: string,
  store: ImageStore,
  say: (text: string) => void,
): Promise<void> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const api = config.makeApiClient(CoreV1Api);
  const sources = await hashOfSources(root);
  const record = await api.readNamespacedConfigMap(RECORD).catch((error) => {
    if (error.code !== 404) throw error;
  });
  if (record?.data?.sources === sources) return;
  await store.prepare();
  for (const target of TARGETS) {
    const begin = Date.now();
    await store.build(target, tagOf(target));
    say(`built and loaded ${tagOf(target)} (${Math.round((Date.now() - begin) / 1000)} s)`);
  }
  await restartPrograms(kubeconfig);
  const body = { metadata: { name: RECORD.name }, data: { sources } };
  if (record) await api.replaceNamespacedConfigMap({ ...RECORD, body });
  else await api.createNamespacedConfigMap({ namespace: RECORD.namespace, body });
}

/** Restarts installed programs, which run older images of the same names. */
async function restartPrograms(kubeconfig: string): Promise<void> {
  const inSystem = ['-n', SYSTEM_NAMESPACE];
  const programs = await kubectl(kubeconfig, [...inSystem, 'get', 'deployments,statefulsets', '-o', 'name']);
  const ours = programs.split('\n').filter((name) => name !== '' && !name.endsWith(`/${PROGRAMS.postgres}`));
  if (ours.length > 0) await kubectl(kubeconfig, [...inSystem, 'rollout', 'restart', ...ours]);
}
