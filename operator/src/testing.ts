/** For tests: a Kubernetes API with our resources in it, and a Postgres. */
import { KubeConfig } from '@kubernetes/client-node';
import { startTestApiServer } from '@slipway/apiserver';
import { customResourceDefinitions } from '@slipway/crds';
import type { TestPostgres } from '@slipway/postgres';
import { pino } from 'pino';
import { isConflict, isNotFound, KubeClient } from './runtime/kube.js';

export const silentLog = pino({ level: 'silent' });

export interface TestKubernetes {
  /** Path of its kubeconfig. */
  kubeconfig: string;
  client: KubeClient;
  close(): Promise<void>;
}

/** SLIPWAY_TEST_KUBECONFIG names a real cluster to run against instead of our own API server. */
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

export function clientOf(kubeconfig: string): Promise<KubeClient> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return KubeClient.connect(config);
}

export const adminUrl = ({ socket, port }: TestPostgres) =>
  `postgresql://slipway:test-superuser@/postgres?host=${encodeURIComponent(socket)}&port=${port}`;

/** Returns the first truthy result of `look`, within three minutes: pods on a busy machine are slow. */
export async function until<T>(look: () => Promise<T> | T, what: string): Promise<NonNullable<T>> {
  const end = Date.now() + 180_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Deletes the object at `path` and waits until it is gone. */
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
