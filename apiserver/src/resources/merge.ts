/** Merges an update into the stored object, and checks if the result differs from it. */
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, ObjectMeta } from '../objects.js';
import type { JsonObject } from '../schema/index.js';
import { hasStatus, type Resource } from './resource.js';
import type { WriteTarget } from './write-target.js';

/** Merges the part of the object that this write may change. The other part keeps its stored state. */
export function mergeParts({ resource, subresource }: WriteTarget, old: KubeObject, incoming: KubeObject): KubeObject {
  if (subresource === 'finalize') return { ...old, metadata: { ...old.metadata }, spec: incoming.spec };
  if (subresource === 'status') {
    const { managedFields, ...kept } = old.metadata;
    const sent = incoming.metadata.managedFields ?? managedFields;
    const object: KubeObject = { ...old, metadata: { ...kept, ...(sent && { managedFields: sent }) } };
    if (incoming.status === undefined) delete object.status;
    else object.status = incoming.status;
    return object;
  }
  if (!hasStatus(resource)) return incoming;
  if (old.status === undefined) delete incoming.status;
  else incoming.status = old.status;
  return incoming;
}

/** Restores metadata that an update can't change, whatever the client sent. */
export function keepServerMetadata(metadata: ObjectMeta, old: ObjectMeta): void {
  metadata.uid = old.uid;
  metadata.creationTimestamp = old.creationTimestamp;
  metadata.resourceVersion = old.resourceVersion;
  for (const field of [
    'generation',
    'deletionTimestamp',
    'deletionGracePeriodSeconds',
    'namespace',
    'generateName',
  ] as const) {
    if (old[field] === undefined) delete metadata[field];
    else (metadata as JsonObject)[field] = old[field];
  }
}

/** True if anything except metadata differs. Status is ignored too if it is a subresource. */
export function wantsOther(resource: Resource, object: KubeObject, old: KubeObject): boolean {
  const { metadata: _, status, apiVersion: __, ...wanted } = object;
  const { metadata: ___, status: oldStatus, apiVersion: ____, ...before } = old;
  if (!isDeepStrictEqual(wanted, before)) return true;
  return !hasStatus(resource) && !isDeepStrictEqual(status, oldStatus);
}

/** True if two versions are equal. Times in managedFields are ignored. */
export function isSame(object: KubeObject, old: KubeObject): boolean {
  const { metadata, ...rest } = object;
  const { metadata: oldMetadata, ...oldRest } = old;
  if (!isDeepStrictEqual(rest, oldRest)) return false;
  const { managedFields, ...meta } = metadata;
  const { managedFields: oldFields, ...oldMeta } = oldMetadata;
  if (!isDeepStrictEqual(meta, oldMeta)) return false;
  const timeless = (fields: JsonObject[] = []) => fields.map(({ time: _, ...field }) => field);
  return isDeepStrictEqual(timeless(managedFields), timeless(oldFields));
}
