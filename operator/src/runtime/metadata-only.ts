/**
 * Reduces an object that no code here reads to its metadata: that it exists, and its project. Its size does not depend
 * on its content. Called by caches.
 */
import { LABEL_PROJECT } from '@slipway/crds';
import type { KubeObject } from './kube.js';

export function metadataOnly({ metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, deletionTimestamp, labels } = metadata;
  const project = labels?.[LABEL_PROJECT];
  const kept = {
    name,
    namespace,
    uid,
    resourceVersion,
    deletionTimestamp,
    labels: project === undefined ? {} : { [LABEL_PROJECT]: project },
  };
  return {
    metadata: Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined)),
  } as unknown as KubeObject;
}
