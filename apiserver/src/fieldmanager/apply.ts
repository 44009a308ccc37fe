import { copy } from '../objects.js';
import { sameJson } from '../schema/equality.js';
import type { Status } from '../schema/field-error.js';
import type { JsonObject, JsonSchema } from '../schema/json-schema.js';
import { type Comparison, compare } from './compare.js';
import { conflictStatus } from './conflict.js';
import { difference, emptySet, type FieldSet, intersection, isEmpty, sameSet, union } from './field-set.js';
import { fieldsOf } from './fields-of.js';
import { isSameManager, type Manager, managersOf, timestamp, tracked, withManagers } from './managers.js';
import { merge, removeUnowned } from './merge.js';
import { objectSchema } from './merge-type.js';

export interface ApplyRequest {
  /** The stored object. Undefined if the apply creates it. */
  live: JsonObject | undefined;
  /**
   * The applied configuration without ignored fields: `status` on the object itself, everything else on its status
   * subresource.
   */
  applied: JsonObject;
  manager: string;
  force: boolean;
  /** The apiVersion of the request, for example `v1` or `slipway.dev/v1alpha1`. */
  apiVersion: string;
  /** Subresource that is applied: '' for the object itself, or `status`. */
  subresource: string;
  schema: JsonSchema | undefined;
  now: Date;
}

export type ApplyResult = { object: JsonObject; conflicts?: undefined } | { object?: undefined; conflicts: Status };

/**
 * Merges `applied` into `live` and moves ownership. The result is equal to `live` if nothing changed. Does not change
 * its inputs.
 */
export function applyServerSide(request: ApplyRequest): ApplyResult {
  const { live, manager, apiVersion, subresource, now } = request;
  const schema = objectSchema(request.schema);
  const applied = withManagers(request.applied, []);
  const before = withManagers(live ?? { metadata: {} }, []);
  const known = managersOf(live);
  const identity = { manager, operation: 'Apply' as const, apiVersion, subresource };
  const last = known.find((entry) => isSameManager(entry, identity));
  const others = known.filter((entry) => entry !== last);
  const fields = tracked(fieldsOf(applied, schema));

  const owned = others.reduce((all, entry) => union(all, entry.fields), fields);
  const merged = merge(before, applied, schema);
  const after = (last ? removeUnowned(merged, schema, last.fields, keepsObject(owned)) : merged) as JsonObject;
  const changes = compare(before, after, schema);
  const conflicts = conflictsOf(others, changes);
  if (conflicts.length > 0 && !request.force) return { conflicts: conflictStatus(conflicts) };

  const own: Manager = { ...identity, fields, time: timestamp(now) };
  if (live && last && sameJson(before, after) && sameSet(last.fields, fields) && last.apiVersion === apiVersion) {
    return { object: copy(live) };
  }
  return { object: withManagers(copy(after), [...others.map((entry) => yieldTo(entry, changes)), own]) };
}

/** Adds the fields that every object has. They have no owner but are never removed. */
function keepsObject(owned: FieldSet): FieldSet {
  const metadata: FieldSet = { ...(owned.children.get('f:metadata') ?? emptySet()), member: true };
  return { member: true, children: new Map([...owned.children, ['f:metadata', metadata]]) };
}

function conflictsOf(others: readonly Manager[], changes: Comparison) {
  const wanted = union(changes.added, changes.modified);
  return others
    .map((manager) => ({ manager, fields: intersection(manager.fields, wanted) }))
    .filter(({ fields }) => !isEmpty(fields));
}

/** Returns the entry without the fields that a forced apply takes over. */
function yieldTo(entry: Manager, { added, modified, removed }: Comparison): Manager {
  return { ...entry, fields: difference(difference(entry.fields, union(added, modified)), removed) };
}
