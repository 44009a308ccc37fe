/** Finalizers, which keep an object until the operator has removed the data that garbage collection can't reach. */
import type { KubeClient, KubeObject } from '@slipway/kubernetes';

export const hasFinalizer = (object: KubeObject, finalizer: string) =>
  object.metadata.finalizers?.includes(finalizer) ?? false;

export const addFinalizer = <T extends KubeObject>(client: KubeClient, path: string, object: T, finalizer: string) =>
  write(client, path, object, [...(object.metadata.finalizers ?? []), finalizer]);

export const removeFinalizer = <T extends KubeObject>(client: KubeClient, path: string, object: T, finalizer: string) =>
  write(
    client,
    path,
    object,
    (object.metadata.finalizers ?? []).filter((name) => name !== finalizer),
  );

/** Sends the version that was read, so that a concurrent change of the list causes a conflict. */
function write<T extends KubeObject>(client: KubeClient, path: string, object: T, finalizers: string[]): Promise<T> {
  const { resourceVersion, uid } = object.metadata;
  return client.patch<T>(path, { metadata: { finalizers, resourceVersion, uid } });
}
