/** A Kubernetes API for tests, with our custom resources, and functions that wait for its changes. */
import { kubeconfigOf } from '@slipway/apiserver';
import { startTestApiServer } from '@slipway/apiserver/testing.js';
import { customResourceDefinitions } from '@slipway/crds';
import { until } from '@slipway/testing';
import { KubeClient } from './client.js';
import { isConflict, isNotFound } from './errors.js';
import { type KubeConfig, loadKubeConfig } from './kubeconfig.js';

export interface TestKubernetes {
  /** Path of the kubeconfig. */
  kubeconfig: string;
  client: KubeClient;
  close(): Promise<void>;
}

/** Starts our own API server. If SLIPWAY_TEST_KUBECONFIG names a real cluster, uses that one. */
export async function startTestKubernetes(): Promise<TestKubernetes> {
  const given = process.env.SLIPWAY_TEST_KUBECONFIG;
  const { kubeconfig, close } = given ? { kubeconfig: given, close: async () => {} } : await startTestApiServer();
  const client = await clientOf(kubeconfig);
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const definition of customResourceDefinitions) {
    await client.create<object>(definitions, definition).catch((error) => {
      if (!isConflict(error)) throw error;
    });
  }
  await until(() => client.get('/apis/slipway.dev/v1alpha1/projects').catch(() => undefined), 'the CRDs to be served');
  return {
    kubeconfig,
    client,
    close: async () => {
      await client.close();
      await close();
    },
  };
}

export async function clientOf(kubeconfig: string): Promise<KubeClient> {
  return KubeClient.connect(await loadKubeConfig(kubeconfig));
}

/** Returns the text of a kubeconfig for the server of `config`, with the given token. */
export const kubeconfigWith = ({ server, tls }: KubeConfig, token: string): string =>
  kubeconfigOf({ url: server, ca: String(tls.ca), token });

/** Returns the configuration for a test's own server over plain HTTP, without credentials. */
export const anonymousAt = (port: number): KubeConfig => ({
  server: `http://127.0.0.1:${port}`,
  tls: {},
  headers: async () => ({}),
});

export async function withClient<T>(kubeconfig: string, work: (client: KubeClient) => Promise<T>): Promise<T> {
  const client = await clientOf(kubeconfig);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

/** Deletes the object at `path` and waits until it does not exist. */
export async function deleteAndWait(client: KubeClient, path: string): Promise<void> {
  const gone = (error: unknown) => {
    if (isNotFound(error)) return true;
    throw error;
  };
  if (await client.delete(path).then(() => false, gone)) return;
  await until(
    () =>
      client.get(path).then(
        () => false,
        (error) => gone(error),
      ),
    `${path} to go`,
  );
}
