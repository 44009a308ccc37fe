/**
 * An installed Slipway on a real cluster, with the face that the one-machine platform has for tests. In: the cluster
 * that scripts/test.mjs found. Used by the tests named *.cluster.test.ts and the benches.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { DATA_NAMESPACE, readSite, type Site, sharedClusterOf } from '@slipway/crds';
import type { Platform } from '../platform.js';
import { until } from '../until.js';
import { ROOT } from './find.js';
import { install } from './installation.js';
import { clusterNetwork } from './network.js';

/** The region of projects that name none. */
const REGION = 'eu-central';

export interface ClusterPlatform extends Platform {
  site: Site;
  config: KubeConfig;
  close(): Promise<void>;
}

/** `root`: of the checkout whose manifests are applied. */
export async function startOnCluster(kubeconfig: string, overlay = 'test', root = ROOT): Promise<ClusterPlatform> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const site = readSite(await readFile(path.join(root, 'manifests', 'overlays', overlay, 'site.yaml'), 'utf8'));
  const installation = await install(root, kubeconfig, overlay);
  const network = clusterNetwork(config);
  const platform: ClusterPlatform = {
    url: site.publicUrl,
    kubeconfig,
    network,
    site,
    config,
    admin: async (database = 'postgres') => network.postgres(await superuserUrl(config, database)),
    close: async () => {
      await network.close();
      await installation.close();
    },
  };
  try {
    await until('the API answers through the Ingress', async () => {
      const response = await network.fetch(`${platform.url}/health`).catch(() => undefined);
      return response?.ok || undefined;
    });
    return platform;
  } catch (error) {
    await platform.close();
    throw error;
  }
}

/** Returns a superuser's URL of the Postgres that the region's projects share. */
async function superuserUrl(config: KubeConfig, database: string): Promise<string> {
  const cluster = sharedClusterOf(REGION);
  const api = config.makeApiClient(CoreV1Api);
  const { data } = await api.readNamespacedSecret({ name: `${cluster}-superuser`, namespace: DATA_NAMESPACE });
  const value = (key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString();
  const url = new URL(`postgresql://${cluster}.${DATA_NAMESPACE}.svc:5432/${database}`);
  url.username = encodeURIComponent(value('username'));
  url.password = encodeURIComponent(value('password'));
  return url.href;
}
