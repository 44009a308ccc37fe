/**
 * Builds the images of images/Dockerfile, and loads them into a cluster that has none or older ones. In: the cluster,
 * and a store that builds and loads one image. A ConfigMap of the cluster records the loaded images, so the record
 * disappears together with the cluster.
 */

import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { isNotFound, type KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { kubectl } from '../kubectl.js';
import { hashOfSources } from './sources.js';

/**
 * Images in the order of their builds. The images of a round are built in parallel. The first build makes the stages
 * that all images share.
 */
const ROUNDS = [['operator'], ['api', 'dataplane'], ['auth', 'rest', 'builder']] as const;
export const tagOf = (target: string) => `slipway/${target}:dev`;

const RECORD = 'slipway-test-images';
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';

interface ImageRecord extends KubeObject {
  data?: { sources?: string };
}

export interface ImageStore {
  /** Prepares the base of the images, before the first of them. */
  prepare(): Promise<void>;
  /** Returns a description for people. */
  build(target: string, tag: string): Promise<'built and loaded' | 'loaded'>;
  /** Removes leftovers of the builds, after the last of them. */
  finish(): Promise<void>;
}

export async function loadImages(
  root: string,
  kubeconfig: string,
  storeOf: (sources: string) => ImageStore,
  say: (text: string) => void,
): Promise<void> {
  const sources = await hashOfSources(root);
  if ((await recorded(kubeconfig)) === sources) return;
  const store = storeOf(sources);
  await store.prepare();
  const build = async (target: string) => {
    const begin = Date.now();
    const done = await store.build(target, tagOf(target));
    say(`${done} ${tagOf(target)} (${Math.round((Date.now() - begin) / 1000)} s)`);
  };
  for (const targets of ROUNDS) await Promise.all(targets.map(build));
  // Not awaited. Layers that a killed build still uses stay until the next run.
  void store.finish().catch((error: Error) => say(`image layers were not removed: ${lastLine(error.message)}`));
  await restartPrograms(kubeconfig);
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: RECORD }, data: { sources } };
  await withClient(kubeconfig, (client) => client.apply(`${CONFIG_MAPS}/${RECORD}`, object, 'slipway-tests'));
}

/** Returns the end of a message that begins with hundreds of layers. */
const lastLine = (message: string) => message.trim().split('\n').at(-1)?.trim();

/** Returns the hash of the sources of the images in the cluster. */
const recorded = (kubeconfig: string): Promise<string | undefined> =>
  withClient(kubeconfig, (client) => client.get<ImageRecord>(`${CONFIG_MAPS}/${RECORD}`)).then(
    ({ data }) => data?.sources,
    (error) => {
      if (!isNotFound(error)) throw error;
      return undefined;
    },
  );

/** Restarts installed programs, because they run older images with the same names. */
async function restartPrograms(kubeconfig: string): Promise<void> {
  const inSystem = ['-n', SYSTEM_NAMESPACE];
  const programs = await kubectl(kubeconfig, [...inSystem, 'get', 'deployments,statefulsets', '-o', 'name']);
  const ours = programs.split('\n').filter((name) => name !== '' && !name.endsWith(`/${PROGRAMS.postgres}`));
  if (ours.length > 0) await kubectl(kubeconfig, [...inSystem, 'rollout', 'restart', ...ours]);
}
