import type { FieldError } from './field-error.js';
import { isObject, type JsonObject, type JsonSchema } from './json-schema.js';
import { label1035Problems, subdomainProblems } from './names.js';
import { compileRules } from './rules.js';
import { structuralErrors } from './structural.js';

const invalidValue = (field: string, badValue: unknown, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  badValue,
  detail,
});
const required = (field: string, detail = ''): FieldError => ({ type: 'FieldValueRequired', field, detail });

const text = (value: unknown) => (typeof value === 'string' ? value : '');
const object = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Validates a CustomResourceDefinition whose defaults are set. `old` is the stored definition on update. */
export function validateCustomResourceDefinition(crd: JsonObject, old?: JsonObject): FieldError[] {
  const spec = object(crd.spec);
  const versions = (Array.isArray(spec.versions) ? spec.versions : []).map(object);
  return [
    ...nameErrors(object(crd.metadata), spec),
    ...groupErrors(spec),
    ...scopeErrors(spec),
    ...namesErrors(object(spec.names)),
    ...versionErrors(versions),
    ...schemaErrors(versions),
    ...(spec.preserveUnknownFields === true ? [PRESERVES_UNKNOWN_FIELDS] : []),
    ...(old ? changeErrors(spec, object(old.spec)) : []),
  ];
}

const PRESERVES_UNKNOWN_FIELDS = invalidValue(
  'spec.preserveUnknownFields',
  true,
  'cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead',
);

function nameErrors(metadata: JsonObject, spec: JsonObject): FieldError[] {
  if (metadata.name === `${text(object(spec.names).plural)}.${text(spec.group)}`) return [];
  return [invalidValue('metadata.name', metadata.name, 'must be spec.names.plural+"."+spec.group')];
}

function groupErrors(spec: JsonObject): FieldError[] {
  const group = text(spec.group);
  if (group === '') return [required('spec.group')];
  const problems = subdomainProblems(group);
  if (problems.length === 0 && !group.includes('.')) problems.push('should be a domain with at least one dot');
  return problems.map((problem) => invalidValue('spec.group', group, problem));
}

function scopeErrors(spec: JsonObject): FieldError[] {
  if (text(spec.scope) === '') return [required('spec.scope')];
  if (spec.scope === 'Cluster' || spec.scope === 'Namespaced') return [];
  const detail = 'supported values: "Cluster", "Namespaced"';
  return [{ type: 'FieldValueNotSupported', field: 'spec.scope', badValue: spec.scope, detail }];
}

/** Validates the names. Kinds are checked in lower case, so that CamelCase is valid. */
function namesErrors(names: JsonObject): FieldError[] {
  const checked = ['plural', 'singular', 'kind', 'listKind'].flatMap((part) => {
    const name = text(names[part]);
    if (name === '') return [required(`spec.names.${part}`)];
    const problems = label1035Problems(part.endsWith('ind') ? name.toLowerCase() : name);
    return problems.map((problem) => invalidValue(`spec.names.${part}`, name, problem));
  });
  const lists = ['shortNames', 'categories'].flatMap((part) =>
    (Array.isArray(names[part]) ? names[part] : []).flatMap((name, index) =>
      label1035Problems(text(name)).map((problem) => invalidValue(`spec.names.${part}[${index}]`, name, problem)),
    ),
  );
  if (text(names.kind) !== '' && names.kind === names.listKind) {
    lists.push(invalidValue('spec.names.listKind', names.listKind, 'kind and listKind may not be the same'));
  }
  return [...checked, ...lists];
}

/** Returns the versions as the real server prints them, without fields that are always null here. */
const printableVersions = (versions: readonly JsonObject[]) =>
  versions.map(({ name, served, storage }) => ({
    Name: name ?? '',
    Served: served ?? false,
    Storage: storage ?? false,
    Deprecated: false,
    DeprecationWarning: null,
    Schema: null,
    Subresources: null,
    AdditionalPrinterColumns: null,
    SelectableFields: null,
  }));

function versionErrors(versions: readonly JsonObject[]): FieldError[] {
  const errors = versions.flatMap((version, index) =>
    label1035Problems(text(version.name)).map((problem) =>
      invalidValue(`spec.versions[${index}].name`, version.name ?? '', problem),
    ),
  );
  if (new Set(versions.map(({ name }) => name)).size !== versions.length) {
    errors.push(invalidValue('spec.versions', printableVersions(versions), 'must contain unique version names'));
  }
  if (versions.filter(({ storage }) => storage === true).length !== 1) {
    const detail = 'must have exactly one version marked as storage version';
    errors.push(invalidValue('spec.versions', printableVersions(versions), detail));
  }
  return errors;
}

/**
 * Validates the schemas. If all versions have the same schema, the real server reports it as the definition's schema.
 */
function schemaErrors(versions: readonly JsonObject[]): FieldError[] {
  const schemas = versions.map((version) => object(version.schema).openAPIV3Schema);
  const isShared = new Set(schemas.map((schema) => JSON.stringify(schema))).size <= 1;
  return schemas.flatMap((schema, index) => {
    const own = `spec.versions[${index}].schema.openAPIV3Schema`;
    if (!isObject(schema)) return [required(own)];
    if (isShared && index > 0) return [];
    return errorsOfSchema(schema as JsonSchema, isShared ? 'spec.validation.openAPIV3Schema' : own);
  });
}

function errorsOfSchema(schema: JsonSchema, field: string): FieldError[] {
  const structural = structuralErrors(schema, field);
  if (structural.length > 0) return structural;
  return compileRules(schema, field).errors;
}

function changeErrors(spec: JsonObject, old: JsonObject): FieldError[] {
  const names = object(spec.names);
  const oldNames = object(old.names);
  const changes: [field: string, after: unknown, before: unknown][] = [
    ['spec.group', spec.group, old.group],
    ['spec.names.plural', names.plural, oldNames.plural],
    ['spec.names.kind', names.kind, oldNames.kind],
    ['spec.scope', spec.scope, old.scope],
  ];
  return changes
    .filter(([, after, before]) => after !== before)
    .map(([field, after]) => invalidValue(field, after, 'field is immutable'));
}
