/** A finalizer keeps an object until we let go of what garbage collection can't reach. */
import type { KubeClient, KubeObject } from './kube.js';

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

/** With the version that was read: whoever else changed the list meanwhile makes this a conflict. */
function write<T extends KubeObject>(client: KubeClient, path: string, object: T, finalizers: string[]): Promise<T> {
  const { resourceVersion, uid } = object.metadata;
  return client.patch<T>(path, { metadata: { finalizers, resourceVersion, uid } });
}
