import { sameJson } from './equality.js';
import type { FieldError } from './field-error.js';
import { isObject, type JsonObject, type JsonSchema, type ValidationRule } from './json-schema.js';
import { patternProblem } from './patterns.js';
import { compilePrune } from './prune.js';
import { compileChecks } from './value-checks.js';

/**
 * Checks if a schema is structural (KEP "Structural schemas"): every value has a type, combinators only add conditions,
 * lists have keys, patterns compile, and defaults are valid. In: a definition's schema and its field. Out: errors with
 * their paths.
 */
export function structuralErrors(schema: JsonSchema, field: string): FieldError[] {
  if (!isObject(schema) || schema.type === undefined || schema.type === '') {
    return [required(`${field}.type`, 'must not be empty at the root')];
  }
  if (schema.type !== 'object') return [invalidValue(`${field}.type`, schema.type, 'must be object at the root')];
  const errors = placeErrors(schema, field, true);
  return errors.length > 0 ? errors : defaultErrors(schema, field);
}

const TYPES = ['array', 'boolean', 'integer', 'number', 'object', 'string'];
const LIST_TYPES = ['atomic', 'set', 'map'];
const REASONS = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];
/** Keywords that are not allowed in a schema inside allOf, anyOf, oneOf or not. */
const FORBIDDEN_IN_COMBINATORS = [
  'type',
  'title',
  'description',
  'default',
  'nullable',
  'additionalProperties',
] as const;

const invalidValue = (field: string, badValue: unknown, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  badValue,
  detail,
});
const required = (field: string, detail: string): FieldError => ({ type: 'FieldValueRequired', field, detail });
const forbidden = (field: string, detail: string): FieldError => ({ type: 'FieldValueForbidden', field, detail });
const unsupported = (field: string, badValue: unknown, values: readonly string[]): FieldError => ({
  type: 'FieldValueNotSupported',
  field,
  badValue,
  detail: `supported values: ${values.map((value) => JSON.stringify(value)).join(', ')}`,
});

function placeErrors(schema: JsonSchema, field: string, isRoot: boolean): FieldError[] {
  return [
    ...(isRoot ? [] : typeErrors(schema, field)),
    ...(isRoot ? metadataErrors(schema, field) : []),
    ...keywordErrors(schema, field),
    ...listErrors(schema, field),
    ...combinatorErrors(schema, field),
    ...ruleFormErrors(schema['x-kubernetes-validations'] ?? [], `${field}.x-kubernetes-validations`),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
      isRoot && name === 'metadata' ? [] : placeErrors(property, `${field}.properties[${name}]`, false),
    ),
    ...(schema.items ? placeErrors(schema.items, `${field}.items`, false) : []),
    ...(typeof schema.additionalProperties === 'object'
      ? placeErrors(schema.additionalProperties, `${field}.additionalProperties`, false)
      : []),
  ];
}

function typeErrors(schema: JsonSchema, field: string): FieldError[] {
  if (schema.type !== undefined && schema.type !== '') {
    return TYPES.includes(schema.type) ? [] : [unsupported(`${field}.type`, schema.type, TYPES)];
  }
  const anyType = schema['x-kubernetes-int-or-string'] || schema['x-kubernetes-preserve-unknown-fields'];
  if (anyType || '$ref' in schema) return [];
  const place = field.endsWith('.items') ? 'array items' : 'object fields';
  return [required(`${field}.type`, `must not be empty for specified ${place}`)];
}

function metadataErrors(schema: JsonSchema, field: string): FieldError[] {
  const metadata = schema.properties?.metadata;
  if (!metadata) return [];
  const others = Object.keys(metadata.properties ?? {}).filter((name) => name !== 'name' && name !== 'generateName');
  if (others.length === 0) return [];
  const detail = 'must not specify anything other than name and generateName, but metadata is implicitly specified';
  return [forbidden(`${field}.properties[metadata]`, detail)];
}

function keywordErrors(schema: JsonSchema, field: string): FieldError[] {
  const errors: FieldError[] = [];
  if ('$ref' in schema) errors.push(forbidden(`${field}.$ref`, '$ref is not supported'));
  if (schema.uniqueItems) {
    const detail = 'uniqueItems cannot be set to true since the runtime complexity becomes quadratic';
    errors.push(forbidden(`${field}.uniqueItems`, detail));
  }
  if (schema.properties && Object.keys(schema.properties).length > 0 && schema.additionalProperties) {
    const detail = 'additionalProperties and properties are mutual exclusive';
    errors.push(forbidden(`${field}.additionalProperties`, detail));
  }
  if (schema.type === 'array' && !schema.items) errors.push(required(`${field}.items`, 'must be specified'));
  if (
    schema['x-kubernetes-embedded-resource'] &&
    !schema.properties &&
    !schema['x-kubernetes-preserve-unknown-fields']
  ) {
    const detail =
      'must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields';
    errors.push(required(`${field}.properties`, detail));
  }
  return [...errors, ...patternErrors(schema, field)];
}

function patternErrors({ pattern }: JsonSchema, field: string): FieldError[] {
  const problem = pattern === undefined ? undefined : patternProblem(pattern);
  if (problem === undefined) return [];
  return [invalidValue(`${field}.pattern`, pattern, `must be a valid regular expression, but isn't: ${problem}`)];
}

function listErrors(schema: JsonSchema, field: string): FieldError[] {
  const listType = schema['x-kubernetes-list-type'];
  const keys = schema['x-kubernetes-list-map-keys'];
  const keysField = `${field}.x-kubernetes-list-map-keys`;
  if (listType === undefined) {
    return keys ? [forbidden(keysField, 'must not be specified if x-kubernetes-list-type is not map')] : [];
  }
  if (!LIST_TYPES.includes(listType)) return [unsupported(`${field}.x-kubernetes-list-type`, listType, LIST_TYPES)];
  if (schema.type !== 'array') {
    return [invalidValue(`${field}.type`, schema.type, 'must be array if x-kubernetes-list-type is specified')];
  }
  if (listType === 'set') return setErrors(schema.items, field);
  if (listType !== 'map') return [];
  if (!keys?.length) return [required(keysField, 'must not be empty if x-kubernetes-list-type is map')];
  return mapKeyErrors(schema.items, keys, field, keysField);
}

function setErrors(items: JsonSchema | undefined, field: string): FieldError[] {
  if (items?.nullable)
    return [forbidden(`${field}.items.nullable`, 'cannot be nullable when x-kubernetes-list-type is set')];
  if (items?.type !== 'object' || items['x-kubernetes-map-type'] === 'atomic') return [];
  const detail = 'must be atomic as item of a list with x-kubernetes-list-type=set';
  return [invalidValue(`${field}.items.x-kubernetes-map-type`, items['x-kubernetes-map-type'] ?? null, detail)];
}

function mapKeyErrors(
  items: JsonSchema | undefined,
  keys: readonly string[],
  field: string,
  keysField: string,
): FieldError[] {
  const properties = items?.properties ?? {};
  if (!keys.every((key) => Object.hasOwn(properties, key))) {
    return [invalidValue(keysField, keys, 'entries must all be names of item properties')];
  }
  return keys
    .filter((key) => !items?.required?.includes(key) && properties[key]?.default === undefined)
    .map((key) =>
      required(
        `${field}.items.properties[${key}].default`,
        'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property',
      ),
    );
}

function combinatorErrors(schema: JsonSchema, field: string): FieldError[] {
  const places = (['allOf', 'anyOf', 'oneOf'] as const).flatMap((combinator) =>
    (schema[combinator] ?? []).map((inner, index) => ({ inner, at: `${field}.${combinator}[${index}]` })),
  );
  if (schema.not) places.push({ inner: schema.not, at: `${field}.not` });
  const isIntOrString = schema['x-kubernetes-int-or-string'] === true;
  return places.flatMap(({ inner, at }) => conditionErrors(inner, at, isIntOrString));
}

function conditionErrors(schema: JsonSchema, field: string, mayHaveType: boolean): FieldError[] {
  const present = FORBIDDEN_IN_COMBINATORS.filter((keyword) => schema[keyword] !== undefined);
  const refused = present.filter((keyword) => !(keyword === 'type' && mayHaveType));
  return [
    ...refused.map((keyword) => forbidden(`${field}.${keyword}`, 'must be empty to be structural')),
    ...patternErrors(schema, field),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
      conditionErrors(property, `${field}.properties[${name}]`, false),
    ),
    ...(schema.items ? conditionErrors(schema.items, `${field}.items`, false) : []),
    ...combinatorErrors(schema, field),
  ];
}

/** Checks the parts of a rule that need no compiler. */
function ruleFormErrors(rules: readonly ValidationRule[], field: string): FieldError[] {
  return rules.flatMap(({ message, reason }, index) => {
    const at = `${field}[${index}]`;
    const errors: FieldError[] = [];
    if (message !== undefined && message !== '' && message.trim() === '') {
      errors.push(invalidValue(`${at}.message`, message, 'must be non-empty if specified'));
    } else if (message?.includes('\n')) {
      errors.push(invalidValue(`${at}.message`, message, 'must not contain line breaks'));
    }
    if (reason !== undefined && !REASONS.includes(reason)) errors.push(unsupported(`${at}.reason`, reason, REASONS));
    return errors;
  });
}

/**
 * Checks that the schema accepts its defaults. Call it only for a schema without other errors, because the schema
 * itself does the check.
 */
function defaultErrors(schema: JsonSchema, field: string): FieldError[] {
  return [
    ...(schema.default === undefined ? [] : wrongDefault(schema, field)),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
      defaultErrors(property, `${field}.properties[${name}]`),
    ),
    ...(schema.items ? defaultErrors(schema.items, `${field}.items`) : []),
    ...(typeof schema.additionalProperties === 'object'
      ? defaultErrors(schema.additionalProperties, `${field}.additionalProperties`)
      : []),
  ];
}

function wrongDefault(schema: JsonSchema, field: string): FieldError[] {
  const pruned = structuredClone(schema.default) as JsonObject;
  compilePrune(schema)(pruned, '', []);
  if (!sameJson(pruned, schema.default)) {
    return [invalidValue(`${field}.default`, schema.default, 'must not have unknown fields')];
  }
  const errors: FieldError[] = [];
  compileChecks(schema)(schema.default, undefined, '', errors);
  return errors.map((error) => ({ ...error, field: `${field}.default${error.field === '' ? '' : `.${error.field}`}` }));
}
