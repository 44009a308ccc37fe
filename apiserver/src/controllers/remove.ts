import type { Resource } from '../resources/resource.js';
import type { DeleteOptions, WriteOptions, Writes } from '../resources/writes.js';
import { ApiError } from '../status.js';
import type { StoredObject } from '../storage/stored-object.js';

/** Deletes this very object, if it is still there. */
export async function remove(
  writes: Writes,
  resource: Resource,
  { namespace, name, object }: StoredObject,
  propagationPolicy?: DeleteOptions['propagationPolicy'],
): Promise<void> {
  const options = { dryRun: false, preconditions: { uid: object.metadata.uid }, propagationPolicy };
  try {
    await writes.delete({ resource, namespace, subresource: '' }, name, options);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

/** Whether the object is gone, or is another one by now: whoever did that is heard of by its own change. */
export const isOvertaken = (error: unknown) =>
  error instanceof ApiError && (error.status.code === 404 || error.status.code === 409);

/** How a controller writes. */
export const writtenBy = (manager: string): WriteOptions => ({
  dryRun: false,
  manager,
  fieldValidation: 'Ignore',
  warnings: [],
});
