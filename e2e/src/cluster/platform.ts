/**
 * An installed Slipway on a real cluster, with the same interface for tests as the one-machine platform. In: the
 * cluster that scripts/test.mjs found. Tests named *.cluster.test.ts and the benches use it.
 */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Project } from '@slipway/crds';
import { DATA_NAMESPACE, readSite, type Site, sharedClusterOf } from '@slipway/installation';
import { type KubeConfig, loadKubeConfig, type Secret } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import type { Test } from 'uvu';
import { kubectl } from '../kubectl.js';
import { registeredAt } from '../management.js';
import type { Platform } from '../platform.js';
import { ROOT } from './find.js';
import { type GivenCluster, isInstalledForAll } from './given.js';
import { install } from './installation.js';
import { clusterNetwork } from './network.js';

/** The default region of projects. */
const REGION = 'eu-central';

export interface ClusterPlatform extends Platform {
  site: Site;
  config: KubeConfig;
  close(): Promise<void>;
}

/** `root` is the checkout whose manifests are applied. */
export async function startOnCluster(kubeconfig: string, overlay = 'test', root = ROOT): Promise<ClusterPlatform> {
  const config = await loadKubeConfig(kubeconfig);
  const site = readSite(await readFile(path.join(root, 'manifests', 'overlays', overlay, 'site.yaml'), 'utf8'));
  const installation = isInstalledForAll() ? undefined : await install(root, kubeconfig, overlay);
  const network = clusterNetwork(kubeconfig);
  const platform: ClusterPlatform = {
    url: site.publicUrl,
    kubeconfig,
    network,
    site,
    config,
    admin: async (database = 'postgres') => network.postgres(await superuserUrl(kubeconfig, database)),
    close: async () => {
      await network.close();
      await (installation ? installation.close() : removeProjects(kubeconfig, registeredAt(platform)));
    },
  };
  try {
    await until(async () => {
      const response = await network.fetch(`${platform.url}/health`).catch(() => undefined);
      return response?.ok;
    }, 'the API answers through the Ingress');
    return platform;
  } catch (error) {
    await platform.close();
    throw error;
  }
}

/**
 * Starts the platform before the tests of a file, and closes it after them. Tests call the returned function to get it.
 */
export function platformOf(test: Test, { kubeconfig, overlay }: GivenCluster): () => ClusterPlatform {
  let platform: ClusterPlatform | undefined;
  test.before(async () => {
    platform = await startOnCluster(kubeconfig, overlay);
  });
  test.after(async () => {
    await platform?.close();
  });
  return () => platform as ClusterPlatform;
}

/** Removes the projects of these accounts. Projects of other files stay. */
async function removeProjects(kubeconfig: string, owners: ReadonlySet<string>): Promise<void> {
  const listed = await kubectl(kubeconfig, ['get', 'projects', '-o', 'json']);
  const { items } = JSON.parse(listed) as { items: Project[] };
  const names = items.filter(({ spec }) => owners.has(spec.owner)).map(({ metadata }) => metadata.name);
  if (names.length > 0) await kubectl(kubeconfig, ['delete', 'projects', ...names, '--ignore-not-found']);
}

/** Returns a superuser's URL of the region's shared Postgres. */
async function superuserUrl(kubeconfig: string, database: string): Promise<string> {
  const cluster = sharedClusterOf(REGION);
  const path = `/api/v1/namespaces/${DATA_NAMESPACE}/secrets/${cluster}-superuser`;
  const { data } = await withClient(kubeconfig, (client) => client.get<Secret>(path));
  const value = (key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString();
  const url = new URL(`postgresql://${cluster}.${DATA_NAMESPACE}.svc:5432/${database}`);
  url.username = encodeURIComponent(value('username'));
  url.password = encodeURIComponent(value('password'));
  return url.href;
}
