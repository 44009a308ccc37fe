import { isObject, type JsonObject } from '../schema/json-schema.js';
import { difference, emptySet, type FieldSet, formatFields, isEmpty, parseFields, union } from './field-set.js';

export type Operation = 'Apply' | 'Update';

/** One entry of `metadata.managedFields`. */
export interface Manager {
  manager: string;
  operation: Operation;
  apiVersion: string;
  subresource: string;
  time: string | undefined;
  fields: FieldSet;
}

/** Maximum number of managers by update. If there are more, the oldest are merged into one entry. */
const UPDATERS_KEPT = 10;
const ANCIENT = 'ancient-changes';

/** Fields that have no manager: those that the server sets, and those that every object has. */
const UNTRACKED: FieldSet = parseFields({
  'f:apiVersion': {},
  'f:kind': {},
  'f:metadata': {
    '.': {},
    'f:name': {},
    'f:namespace': {},
    'f:creationTimestamp': {},
    'f:selfLink': {},
    'f:uid': {},
    'f:clusterName': {},
    'f:generation': {},
    'f:managedFields': {},
    'f:resourceVersion': {},
  },
});

export const tracked = (fields: FieldSet) => difference(fields, UNTRACKED);

/**
 * True if two entries belong to the same manager. An applier has one entry for all versions, an updater one for each.
 */
export function isSameManager(a: Omit<Manager, 'fields' | 'time'>, b: Omit<Manager, 'fields' | 'time'>): boolean {
  return (
    a.manager === b.manager &&
    a.operation === b.operation &&
    a.subresource === b.subresource &&
    (a.operation === 'Apply' || a.apiVersion === b.apiVersion)
  );
}

const metadataOf = (object: JsonObject | undefined): JsonObject => (isObject(object?.metadata) ? object.metadata : {});

/** Returns the managers of an object, or none if the list is malformed. */
export function managersOf(object: JsonObject | undefined): Manager[] {
  const entries = metadataOf(object).managedFields;
  if (!Array.isArray(entries)) return [];
  try {
    return entries.filter((entry) => isObject(entry) && Object.keys(entry).length > 0).map(readManager);
  } catch {
    // If a client writes a malformed list, the known managers are lost, as on the real server. The object itself is
    // valid.
    return [];
  }
}

/** True if a client resets the list, by sending one empty entry. */
export function resetsManagers(object: JsonObject): boolean {
  const entries = metadataOf(object).managedFields;
  return Array.isArray(entries) && entries.length === 1 && isObject(entries[0]) && Object.keys(entries[0]).length === 0;
}

function readManager(entry: JsonObject): Manager {
  if (entry.operation !== 'Apply' && entry.operation !== 'Update') throw new Error('operation is malformed');
  return {
    manager: String(entry.manager ?? ''),
    operation: entry.operation,
    apiVersion: String(entry.apiVersion ?? ''),
    subresource: String(entry.subresource ?? ''),
    time: typeof entry.time === 'string' ? entry.time : undefined,
    fields: entry.fieldsV1 === undefined ? emptySet() : parseFields(entry.fieldsV1),
  };
}

function writeManager({ manager, operation, apiVersion, subresource, time, fields }: Manager): JsonObject {
  return {
    manager,
    operation,
    apiVersion,
    ...(time === undefined ? {} : { time }),
    fieldsType: 'FieldsV1',
    fieldsV1: formatFields(fields),
    ...(subresource === '' ? {} : { subresource }),
  };
}

/** Returns `object` with `managers` as its managedFields, in the real server's order. */
export function withManagers(object: JsonObject, managers: readonly Manager[]): JsonObject {
  const { managedFields: _, ...metadata } = metadataOf(object);
  const entries = gatherAncient(managers.filter(({ fields }) => !isEmpty(fields)))
    .sort(byOperationAndAge)
    .map(writeManager);
  return { ...object, metadata: entries.length === 0 ? metadata : { ...metadata, managedFields: entries } };
}

const compareTexts = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
const byAge = (a: Manager, b: Manager) =>
  compareTexts(a.time ?? '', b.time ?? '') ||
  compareTexts(a.manager, b.manager) ||
  compareTexts(a.apiVersion, b.apiVersion);
const byOperationAndAge = (a: Manager, b: Manager) =>
  compareTexts(a.operation, b.operation) || byAge(a, b) || compareTexts(a.subresource, b.subresource);

/** Merges the oldest updaters of one version until few enough are left. */
function gatherAncient(managers: readonly Manager[]): Manager[] {
  const updaters = managers.filter(({ operation }) => operation === 'Update').sort(byAge);
  const gathered = new Map<string, Manager>();
  const merged = new Set<Manager>();
  let left = updaters.length;
  for (const updater of updaters) {
    if (left <= UPDATERS_KEPT) break;
    const bucket = gathered.get(updater.apiVersion);
    merged.add(updater);
    if (bucket) left--;
    const fields = bucket ? union(bucket.fields, updater.fields) : updater.fields;
    gathered.set(updater.apiVersion, {
      ...updater,
      manager: bucket ? ANCIENT : updater.manager,
      subresource: '',
      fields,
    });
  }
  return [...managers.filter((manager) => !merged.has(manager)), ...gathered.values()];
}

/** Formats a time by RFC 3339 in whole seconds, like metav1.Time. */
export const timestamp = (now: Date) => `${now.toISOString().slice(0, 19)}Z`;
