import type { DeleteOptions } from '../resources/deletion.js';
import type { Resource } from '../resources/resource.js';
import type { WriteOptions, Writes } from '../resources/writes.js';
import { ApiError } from '../status.js';
import type { StoredObject } from '../storage/stored-object.js';

/** Deletes exactly this object, if it still exists. */
export async function remove(
  writes: Writes,
  resource: Resource,
  { namespace, name, outline }: StoredObject,
  propagationPolicy?: DeleteOptions['propagationPolicy'],
): Promise<void> {
  const options = { dryRun: false, preconditions: { uid: outline.metadata.uid }, propagationPolicy };
  try {
    await writes.delete({ resource, namespace, subresource: '' }, name, options);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

/** True if the object was deleted or replaced meantime. That change has its own event. */
export const isOvertaken = (error: unknown) =>
  error instanceof ApiError && (error.status.code === 404 || error.status.code === 409);

/** Returns the options of a controller's writes. */
export const writtenBy = (manager: string): WriteOptions => ({
  dryRun: false,
  manager,
  fieldValidation: 'Ignore',
  warnings: [],
});
