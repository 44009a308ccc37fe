import type { JsonObject, JsonSchema } from '../schema/json-schema.js';
import { compare, isSame } from './compare.js';
import { difference, isEmpty, union } from './field-set.js';
import {
  isSameManager,
  type Manager,
  managersOf,
  resetsManagers,
  timestamp,
  tracked,
  withManagers,
} from './managers.js';
import { objectSchema } from './merge-type.js';

export interface UpdateRequest {
  /** The stored object. Undefined for a create. */
  before: JsonObject | undefined;
  /** The object to store, with defaults and without unknown fields. Its managedFields are the client's. */
  after: JsonObject;
  manager: string;
  apiVersion: string;
  subresource: string;
  schema: JsonSchema | undefined;
  now: Date;
}

/**
 * Returns `after` with managedFields that record the changes of `manager` in a create, update or patch. Does not change
 * its inputs.
 */
export function trackUpdate(request: UpdateRequest): JsonObject {
  const { before, after, manager, apiVersion, subresource, schema, now } = request;
  const changes = compare(before ?? { metadata: {} }, after, objectSchema(schema));
  const known = knownManagers(request);
  const taken = union(changes.added, changes.modified);
  const left = isSame(changes)
    ? known
    : known.map((entry) => ({ ...entry, fields: difference(difference(entry.fields, taken), changes.removed) }));
  const changed = tracked(taken);
  if (isEmpty(changed)) return withManagers(after, left);

  const identity = { manager, operation: 'Update' as const, apiVersion, subresource };
  const previous = left.find((entry) => isSameManager(entry, identity));
  const own: Manager = {
    ...identity,
    time: timestamp(now),
    fields: previous ? union(previous.fields, changed) : changed,
  };
  return withManagers(after, [...left.filter((entry) => entry !== previous), own]);
}

/**
 * Returns the managers before the update. A client may write managedFields itself, but not through a subresource. If
 * the client's list is missing or malformed, the stored list counts.
 */
function knownManagers({ before, after, subresource }: UpdateRequest): Manager[] {
  if (subresource !== '') return managersOf(before);
  if (resetsManagers(after)) return [];
  const sent = managersOf(after);
  return sent.length > 0 ? sent : managersOf(before);
}
