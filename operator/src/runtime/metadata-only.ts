/**
 * Reduces an object to its metadata, for objects of which the operator reads only their existence and their project.
 * The size of the result does not depend on the object's content. Called by caches.
 */

import { LABEL_PROJECT } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';

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
