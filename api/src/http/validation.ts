/**
 * Turns what came over the wire into what a handler may trust: parameters and query from text, and all of it checked
 * against the route's TypeBox schemas. A refusal lists every field. Called by `route-interceptor.ts` alone.
 */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { type FieldError, Problem } from './problem.js';

export type Check = (value: unknown) => unknown;

/** A check of `schema` for a body: JSON has types already. */
export function bodyCheck(schema: TSchema): Check {
  const validator = Compile(schema);
  return (value) => {
    if (value === undefined) throw new Problem('validation_failed', 'A JSON body is needed.', { errors: [] });
    if (validator.Check(value)) return value;
    throw refusal(fieldErrors(validator.Errors(value), schema));
  };
}

/** A check of `schema`, an object, for path parameters or the query, where all is text. */
export function textCheck(schema: TSchema): Check {
  const validator = Compile(schema);
  const types = (schema as unknown as { properties: Record<string, { type?: string }> }).properties;
  return (value) => {
    const typed = Object.fromEntries(
      Object.entries((value ?? {}) as Record<string, unknown>).map(([name, text]) => [
        name,
        types[name]?.type === 'integer' ? toInteger(text) : text,
      ]),
    );
    if (validator.Check(typed)) return typed;
    throw refusal(fieldErrors(validator.Errors(typed), schema));
  };
}

function toInteger(text: unknown): unknown {
  const isWhole = typeof text === 'string' && /^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
  return isWhole ? Number(text) : text;
}

function refusal(errors: FieldError[]) {
  const detail = errors.map(({ field, message }) => (field ? `${field}: ${message}` : message)).join('; ');
  return new Problem('validation_failed', detail || 'The request is not valid.', { errors });
}

function fieldErrors(errors: TLocalizedValidationError[], schema: TSchema): FieldError[] {
  const byField = new Map<string, Set<string>>();
  const telling = errors.filter(isTelling);
  for (const error of telling.filter((error) => !isOfOtherForm(error, telling))) {
    for (const { field, message } of spread(error, schema)) {
      byField.set(field, (byField.get(field) ?? new Set()).add(message));
    }
  }
  if (byField.size === 0 && errors[0]) byField.set(pathOf(errors[0]), new Set(['is not of a form that is accepted']));
  return [...byField].slice(0, 100).map(([field, messages]) => ({ field, message: [...messages].join(', or ') }));
}

/** False for errors of a union that tell nothing: those of its `null` branch. */
function isTelling(error: TLocalizedValidationError) {
  // `boolean` is said of a field that is not known, beside the error that names it.
  if (error.keyword === 'anyOf' || error.keyword === 'boolean') return false;
  return !(error.keyword === 'type' && 'type' in error.params && error.params.type === 'null');
}

/**
 * True for the error of a union of object and array that is about the form that was not sent. If neither was sent, the
 * object is requested.
 */
function isOfOtherForm(error: TLocalizedValidationError, all: TLocalizedValidationError[]): boolean {
  if (error.keyword !== 'type') return false;
  const { type } = error.params;
  if (type !== 'object' && type !== 'array') return false;
  const { instancePath: path } = error;
  return all.some(
    (other) =>
      other.instancePath.startsWith(`${path}/`) ||
      (other.instancePath === path &&
        (other.keyword !== 'type' || (type === 'array' && other.params.type === 'object'))),
  );
}

function spread(error: TLocalizedValidationError, schema: TSchema): FieldError[] {
  const path = pathOf(error);
  const inside = (name: string) => (path ? `${path}.${name}` : name);
  if (error.keyword === 'required') {
    return error.params.requiredProperties.map((name) => ({ field: inside(name), message: 'is required' }));
  }
  if (error.keyword === 'additionalProperties') {
    const names = wantedNames(error, schema);
    const message = names ? `must be named as ${names} says` : 'is not a field that is known here';
    return error.params.additionalProperties.map((name) => ({ field: inside(name.slice(0, 100)), message }));
  }
  if (error.keyword === 'enum') {
    return [{ field: path, message: `must be one of ${error.params.allowedValues.join(', ')}` }];
  }
  return [{ field: path, message: (DESCRIBED.has(error.keyword) && described(error, schema)) || error.message }];
}

const DESCRIBED = new Set(['pattern', 'minProperties']);
/** Returns the description of a pattern: a long pattern tells a person nothing. */
function described(error: TLocalizedValidationError, schema: TSchema): string | undefined {
  const description = nodesTo(error, schema).findLast((node) => node.description !== undefined)?.description;
  return description && `is not of the form that is wanted: ${description}`;
}

/** The pattern of the names that an object of free names takes. */
const wantedNames = (error: TLocalizedValidationError, schema: TSchema) =>
  Object.keys(nodesTo(error, schema).findLast((node) => node.patternProperties)?.patternProperties ?? {})[0];

interface SchemaNode {
  description?: string;
  patternProperties?: object;
}

/** All that the error's path passes in the schema, outermost first. */
function nodesTo({ schemaPath }: TLocalizedValidationError, schema: TSchema): SchemaNode[] {
  const nodes: SchemaNode[] = [schema as SchemaNode];
  for (const part of schemaPath.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    const next = (nodes.at(-1) as Record<string, unknown>)[name];
    if (typeof next !== 'object' || next === null) break;
    nodes.push(next);
  }
  return nodes;
}

const pathOf = (error: TLocalizedValidationError) =>
  error.instancePath
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~').slice(0, 100))
    .join('.');
