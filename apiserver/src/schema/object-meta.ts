import type { FieldError } from './field-error.js';
import { isObject, type JsonObject } from './json-schema.js';
import { labelProblems, labelValueProblems, qualifiedNameProblems, subdomainProblems } from './names.js';

export interface MetadataRules {
  namespaced: boolean;
  /** Syntax of names: `label` for Namespaces (63 characters, no dots), otherwise `subdomain`. */
  name?: 'subdomain' | 'label';
}

/** Maximum bytes of the keys and values of all annotations together. */
const ANNOTATIONS_MAX_BYTES = 256 * 1024;

const invalidValue = (field: string, badValue: unknown, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  badValue,
  detail,
});

/** Validates `metadata`, with generateName resolved and the namespace set. `old` is the stored metadata on update. */
export function validateObjectMeta(metadata: JsonObject, rules: MetadataRules, old?: JsonObject): FieldError[] {
  return [
    ...nameErrors(metadata, rules),
    ...namespaceErrors(metadata, rules),
    ...labelErrors(metadata.labels, 'metadata.labels'),
    ...annotationErrors(metadata.annotations, 'metadata.annotations'),
    ...ownerErrors(metadata.ownerReferences),
    ...finalizerErrors(metadata.finalizers),
    ...(old ? changeErrors(metadata, old) : []),
  ];
}

const text = (value: unknown) => (typeof value === 'string' ? value : '');

function nameErrors(metadata: JsonObject, rules: MetadataRules): FieldError[] {
  const problemsOf = rules.name === 'label' ? labelProblems : subdomainProblems;
  const name = text(metadata.name);
  const prefix = text(metadata.generateName);
  const errors: FieldError[] = [];
  if (prefix !== '') {
    // A trailing hyphen is valid in a prefix, because letters follow it.
    const problems = problemsOf(prefix.endsWith('-') ? `${prefix.slice(0, -1)}a` : prefix);
    errors.push(...problems.map((problem) => invalidValue('metadata.generateName', prefix, problem)));
  }
  if (name === '') {
    const detail = 'name or generateName is required';
    return [...errors, { type: 'FieldValueRequired', field: 'metadata.name', detail }];
  }
  return [...errors, ...problemsOf(name).map((problem) => invalidValue('metadata.name', name, problem))];
}

function namespaceErrors(metadata: JsonObject, { namespaced }: MetadataRules): FieldError[] {
  const namespace = text(metadata.namespace);
  if (!namespaced) {
    if (namespace === '') return [];
    return [{ type: 'FieldValueForbidden', field: 'metadata.namespace', detail: 'not allowed on this type' }];
  }
  if (namespace === '') return [{ type: 'FieldValueRequired', field: 'metadata.namespace', detail: '' }];
  return labelProblems(namespace).map((problem) => invalidValue('metadata.namespace', namespace, problem));
}

/** Returns the errors of labels at `field`. Also for label selectors and embedded objects. */
export function labelErrors(labels: unknown, field: string): FieldError[] {
  if (!isObject(labels)) return [];
  return Object.entries(labels).flatMap(([key, value]) => [
    ...qualifiedNameProblems(key).map((problem) => invalidValue(field, key, problem)),
    ...labelValueProblems(text(value)).map((problem) => invalidValue(field, value, problem)),
  ]);
}

export function annotationErrors(annotations: unknown, field: string): FieldError[] {
  if (!isObject(annotations)) return [];
  const entries = Object.entries(annotations);
  const errors = entries.flatMap(([key]) =>
    qualifiedNameProblems(key.toLowerCase()).map((problem) => invalidValue(field, key, problem)),
  );
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(text(value)), 0);
  if (bytes > ANNOTATIONS_MAX_BYTES) {
    errors.push({ type: 'FieldValueTooLong', field, detail: `may not be more than ${ANNOTATIONS_MAX_BYTES} bytes` });
  }
  return errors;
}

function ownerErrors(owners: unknown): FieldError[] {
  if (!Array.isArray(owners)) return [];
  const field = 'metadata.ownerReferences';
  const errors = owners.filter(isObject).flatMap((owner) => ownerReferenceErrors(owner, field));
  const controllers = owners.filter((owner) => isObject(owner) && owner.controller === true);
  const [first, second] = controllers.map((owner) => `${owner.kind}/${owner.name}`);
  if (second !== undefined) {
    const found = `Found "true" in references for ${first} and ${second}`;
    errors.push(invalidValue(field, owners, `Only one reference can have Controller set to true. ${found}`));
  }
  return errors;
}

function ownerReferenceErrors(owner: JsonObject, field: string): FieldError[] {
  const [group, version] = groupVersion(text(owner.apiVersion));
  const errors: FieldError[] = [];
  if (version === '')
    errors.push(invalidValue(`${field}.apiVersion`, owner.apiVersion ?? '', 'version must not be empty'));
  for (const name of ['kind', 'name', 'uid']) {
    if (text(owner[name]) === '') errors.push(invalidValue(`${field}.${name}`, '', 'must not be empty'));
  }
  if (owner.kind === 'Event' && (group === '' || group === 'events.k8s.io')) {
    errors.push(invalidValue(field, owner, `${group}/${version}, Kind=Event is disallowed from being an owner`));
  }
  return errors;
}

function groupVersion(apiVersion: string): [group: string, version: string] {
  const parts = apiVersion.split('/');
  if (parts.length === 1) return ['', parts[0] ?? ''];
  return parts.length === 2 ? [parts[0] ?? '', parts[1] ?? ''] : ['', ''];
}

function finalizerErrors(finalizers: unknown): FieldError[] {
  if (!Array.isArray(finalizers)) return [];
  return finalizers.flatMap((finalizer) =>
    qualifiedNameProblems(text(finalizer)).map((problem) => invalidValue('metadata.finalizers', finalizer, problem)),
  );
}

const IMMUTABLE = ['name', 'namespace', 'uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'];

function changeErrors(metadata: JsonObject, old: JsonObject): FieldError[] {
  const errors = IMMUTABLE.filter((name) => (metadata[name] ?? null) !== (old[name] ?? null)).map((name) =>
    invalidValue(`metadata.${name}`, metadata[name] ?? null, 'field is immutable'),
  );
  if (old.deletionTimestamp === undefined || !Array.isArray(metadata.finalizers)) return errors;
  const known = new Set(Array.isArray(old.finalizers) ? old.finalizers : []);
  const added = metadata.finalizers.filter((finalizer) => !known.has(finalizer));
  if (added.length === 0) return errors;
  const detail = `no new finalizers can be added if the object is being deleted, found new finalizers [${added
    .map((finalizer) => JSON.stringify(finalizer))
    .join(' ')}]`;
  return [...errors, { type: 'FieldValueForbidden', field: 'metadata.finalizers', detail }];
}
