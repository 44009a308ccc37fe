import { correlateItems } from './correlation.js';
import { sameJson } from './equality.js';
import type { FieldError } from './field-error.js';
import { formatCheck } from './formats.js';
import { isObject, type JsonSchema } from './json-schema.js';
import { compilePattern } from './patterns.js';

/**
 * Checks one value against one schema, and adds its errors to `errors`. `old` is the former value at the same path, or
 * undefined if it is unknown. Errors of an unchanged value are dropped. So a schema can become stricter, and objects
 * that were stored before can still be changed.
 */
export type Check = (value: unknown, old: unknown, path: string, errors: FieldError[]) => void;

export function compileChecks(schema: JsonSchema): Check {
  const own = [
    typeCheck(schema),
    combinatorCheck(schema),
    stringCheck(schema),
    numberCheck(schema),
    itemsCheck(schema),
    enumCheck(schema),
    propertiesCheck(schema),
  ].filter((check) => check !== undefined);
  const nullable = schema.nullable === true;
  return (value, old, path, errors) => {
    if (value === null && nullable) return;
    const before = errors.length;
    for (const check of own) check(value, old, path, errors);
    if (errors.length > before && old !== undefined && sameJson(value, old)) errors.length = before;
  };
}

/** Returns the type that Go's API server assigns to a decoded value. Numbers beyond 64 bits are not integers. */
function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) && Math.abs(value) < 2 ** 63 ? 'integer' : 'number';
  return typeof value;
}

const invalidValue = (field: string, badValue: unknown, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  badValue,
  detail: `${field} in body ${detail}`,
});

const wrongType = (field: string, badValue: unknown, expected: string): FieldError => ({
  type: 'FieldValueTypeInvalid',
  field,
  badValue,
  detail: `${field} in body must be of type ${expected}: ${JSON.stringify(badValue)}`,
});

function typeCheck(schema: JsonSchema): Check | undefined {
  const types = schema['x-kubernetes-int-or-string'] ? ['integer', 'string'] : schema.type ? [schema.type] : [];
  if (types.length === 0) return undefined;
  const accepted = new Set(types.includes('number') ? [...types, 'integer'] : types);
  const expected = types.join(',');
  return (value, _old, path, errors) => {
    const actual = typeName(value);
    if (!accepted.has(actual)) errors.push(wrongType(path, actual, expected));
  };
}

function stringCheck({ minLength, maxLength, pattern, format }: JsonSchema): Check | undefined {
  const matches = pattern === undefined ? undefined : compilePattern(pattern);
  const hasFormat = format === undefined ? undefined : formatCheck(format);
  if (!matches && !hasFormat && minLength === undefined && maxLength === undefined) return undefined;
  return (value, _old, path, errors) => {
    if (typeof value !== 'string') return;
    if (maxLength !== undefined && value.length > maxLength && characters(value) > maxLength) {
      const unit = maxLength === 1 ? 'byte' : 'bytes';
      errors.push({ type: 'FieldValueTooLong', field: path, detail: `may not be more than ${maxLength} ${unit}` });
    }
    if (minLength !== undefined && characters(value) < minLength) {
      errors.push(invalidValue(path, value, `should be at least ${minLength} chars long`));
    }
    if (matches && !matches(value)) errors.push(invalidValue(path, value, `should match '${pattern}'`));
    if (hasFormat && !hasFormat(value)) errors.push(wrongType(path, value, format ?? ''));
  };
}

/** Counts code points, like Go's utf8.RuneCountInString. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function numberCheck(schema: JsonSchema): Check | undefined {
  const { minimum, maximum, exclusiveMinimum = false, exclusiveMaximum = false, multipleOf } = schema;
  if (minimum === undefined && maximum === undefined && multipleOf === undefined) return undefined;
  return (value, _old, path, errors) => {
    if (typeof value !== 'number') return;
    if (multipleOf !== undefined) {
      // The real server divides an integer by the integer part of the factor.
      const factor = Number.isInteger(value) ? Math.trunc(multipleOf) : multipleOf;
      const quotient = value / factor;
      if (!Number.isInteger(quotient)) errors.push(invalidValue(path, value, `should be a multiple of ${factor}`));
    }
    if (maximum !== undefined && (value > maximum || (exclusiveMaximum && value === maximum))) {
      errors.push(invalidValue(path, value, `should be less than ${exclusiveMaximum ? '' : 'or equal to '}${maximum}`));
    }
    if (minimum !== undefined && (value < minimum || (exclusiveMinimum && value === minimum))) {
      errors.push(
        invalidValue(path, value, `should be greater than ${exclusiveMinimum ? '' : 'or equal to '}${minimum}`),
      );
    }
  };
}

function tooMany(field: string, count: number, most: number): FieldError {
  const unit = most === 1 ? 'item' : 'items';
  return { type: 'FieldValueTooMany', field, badValue: count, detail: `must have at most ${most} ${unit}` };
}

function itemsCheck(schema: JsonSchema): Check | undefined {
  const { items, minItems, maxItems } = schema;
  const check = items && compileChecks(items);
  if (!check && minItems === undefined && maxItems === undefined) return undefined;
  const correlate = correlateItems(schema);
  return (value, old, path, errors) => {
    if (!Array.isArray(value)) return;
    const before = correlate && Array.isArray(old) ? correlate(old) : undefined;
    if (check) value.forEach((item, index) => check(item, before?.(item), `${path}[${index}]`, errors));
    if (minItems !== undefined && value.length < minItems) {
      errors.push(invalidValue(path, value.length, `should have at least ${minItems} items`));
    }
    if (maxItems !== undefined && value.length > maxItems) errors.push(tooMany(path, value.length, maxItems));
  };
}

function enumCheck({ enum: values }: JsonSchema): Check | undefined {
  if (!values) return undefined;
  const strings = new Set(values.filter((value) => typeof value === 'string'));
  const supported = values.map((value) => JSON.stringify(typeof value === 'string' ? value : String(value))).join(', ');
  return (value, _old, path, errors) => {
    const known =
      typeof value === 'string' ? strings.has(value) : values.some((candidate) => sameJson(candidate, value));
    if (known) return;
    errors.push({
      type: 'FieldValueNotSupported',
      field: path,
      badValue: value,
      detail: `supported values: ${supported}`,
    });
  };
}

function propertiesCheck(schema: JsonSchema): Check | undefined {
  const { properties = {}, required = [], additionalProperties, minProperties, maxProperties } = schema;
  const checks = new Map(Object.entries(properties).map(([name, property]) => [name, compileChecks(property)]));
  const checkValue = typeof additionalProperties === 'object' ? compileChecks(additionalProperties) : undefined;
  const bounded = minProperties !== undefined || maxProperties !== undefined;
  if (checks.size === 0 && required.length === 0 && !checkValue && !bounded) return undefined;
  return (value, old, path, errors) => {
    if (!isObject(value)) return;
    const before = isObject(old) ? old : undefined;
    const prefix = path === '' ? '' : `${path}.`;
    const names = Object.keys(value);
    for (const name of required) {
      if (value[name] === undefined) errors.push({ type: 'FieldValueRequired', field: prefix + name, detail: '' });
    }
    for (const name of names) {
      const check = checks.get(name) ?? checkValue;
      if (check && value[name] !== undefined) check(value[name], before?.[name], prefix + name, errors);
    }
    if (minProperties !== undefined && names.length < minProperties) {
      errors.push(invalidValue(path, names.length, `should have at least ${minProperties} properties`));
    }
    if (maxProperties !== undefined && names.length > maxProperties) {
      errors.push(tooMany(path, names.length, maxProperties));
    }
  };
}

function combinatorCheck({ allOf, anyOf, oneOf, not }: JsonSchema): Check | undefined {
  const all = allOf?.map(compileChecks);
  const any = anyOf?.map(compileChecks);
  const one = oneOf?.map(compileChecks);
  const none = not && compileChecks(not);
  if (!all && !any && !one && !none) return undefined;
  return (value, _old, path, errors) => {
    const outcomes = (checks: readonly Check[]) => checks.map((check) => problems(check, value, path));
    if (any) checkAnyOf(outcomes(any), path, errors);
    if (one) checkOneOf(outcomes(one), path, errors);
    if (all) checkAllOf(outcomes(all), path, errors);
    if (none && problems(none, value, path).length === 0) {
      errors.push(ofWholeValue(path, 'must not validate the schema (not)'));
    }
  };
}

function problems(check: Check, value: unknown, path: string): FieldError[] {
  const errors: FieldError[] = [];
  check(value, undefined, path, errors);
  return errors;
}

/** The real server reports no field and an empty value in these errors. */
const ofWholeValue = (path: string, what: string): FieldError => ({
  type: 'FieldValueInvalid',
  field: '<nil>',
  badValue: '',
  detail: `${JSON.stringify(path)} ${what}`,
});

function checkAnyOf(outcomes: FieldError[][], path: string, errors: FieldError[]): void {
  if (outcomes.some((outcome) => outcome.length === 0)) return;
  errors.push(ofWholeValue(path, 'must validate at least one schema (anyOf)'), ...(outcomes[0] ?? []));
}

function checkOneOf(outcomes: FieldError[][], path: string, errors: FieldError[]): void {
  const valid = outcomes.filter((outcome) => outcome.length === 0).length;
  if (valid === 1) return;
  const found = valid === 0 ? 'Found none valid' : `Found ${valid} valid alternatives`;
  errors.push(ofWholeValue(path, `must validate one and only one schema (oneOf). ${found}`));
  if (valid === 0) errors.push(...(outcomes[0] ?? []));
}

function checkAllOf(outcomes: FieldError[][], path: string, errors: FieldError[]): void {
  const failed = outcomes.filter((outcome) => outcome.length > 0);
  if (failed.length === 0) return;
  const none = failed.length === outcomes.length ? '. None validated' : '';
  errors.push(...failed.flat(), ofWholeValue(path, `must validate all the schemas (allOf)${none}`));
}
