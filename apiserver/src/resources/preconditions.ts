/** Checks the preconditions of a write: the uid and the version that the client knows. */
import type { ObjectMeta } from '../objects.js';
import { invalid } from '../schema/index.js';
import { ApiError, conflict, MODIFIED } from '../status.js';
import type { StoredObject } from '../storage/stored-object.js';
import type { DeleteOptions } from './deletion.js';
import type { Resource } from './resource.js';

/** Names the resource instead of its kind, as the real server does. */
export function versionRequired({ group, plural }: Resource, name: string): ApiError {
  const field = 'metadata.resourceVersion';
  return new ApiError(
    invalid({ group, kind: plural }, name, [
      { type: 'FieldValueInvalid', field, badValue: 0, detail: 'must be specified for an update' },
    ]),
  );
}

export function checkPreconditions(resource: Resource, current: StoredObject, sent: ObjectMeta): void {
  const { uid } = current.outline.metadata;
  if (sent.uid && sent.uid !== uid) {
    const key = `/registry/${resource.storage}/${current.namespace ? `${current.namespace}/` : ''}${current.name}`;
    throw conflict(
      resource,
      current.name,
      `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition ` +
        `failed: UID in precondition: ${sent.uid}, UID in object meta: ${uid}`,
    );
  }
  if (sent.resourceVersion && sent.resourceVersion !== String(current.revision)) {
    throw conflict(resource, current.name, MODIFIED);
  }
}

export function checkDeletePreconditions(
  { kind, group }: Resource,
  { name, revision, outline }: StoredObject,
  preconditions: DeleteOptions['preconditions'],
): void {
  const of = { plural: kind, group };
  const { uid } = outline.metadata;
  if (preconditions?.uid && preconditions.uid !== uid) {
    throw conflict(
      of,
      name,
      `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object ` +
        'might have been deleted and then recreated',
    );
  }
  if (preconditions?.resourceVersion && preconditions.resourceVersion !== String(revision)) {
    throw conflict(
      of,
      name,
      `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion ` +
        `in record (${revision}). The object might have been modified`,
    );
  }
}
