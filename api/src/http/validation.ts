/**
 * Validates input by the route's TypeBox schemas, and converts parameters and query from text. An error lists every
 * invalid field. Called by `route-interceptor.ts`.
 */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { type FieldError, invalidFields, Problem } from './problem.js';

export type Check = (value: unknown) => unknown;

/** Returns a check of `schema` for a body, whose JSON has types already. `missing` is the value of a missing body. */
export function bodyCheck(schema: TSchema, missing?: object): Check {
  const validator = Compile(schema);
  return (sent) => {
    const value = sent === undefined ? missing : sent;
    if (value === undefined) throw new Problem('validation_failed', 'A JSON body is required.', { errors: [] });
    if (validator.Check(value)) return value;
    throw invalidFields(fieldErrors(validator.Errors(value), schema));
  };
}

/** Returns a check of `schema`, an object, for path parameters or the query, which are text. */
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
    throw invalidFields(fieldErrors(validator.Errors(typed), schema));
  };
}

function toInteger(text: unknown): unknown {
  const isWhole = typeof text === 'string' && /^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
  return isWhole ? Number(text) : text;
}

function fieldErrors(errors: TLocalizedValidationError[], schema: TSchema): FieldError[] {
  const byField = new Map<string, Set<string>>();
  const telling = errors.filter(isTelling);
  for (const error of telling.filter((error) => !isOfOtherForm(error, telling))) {
    for (const { field, message } of spread(error, schema)) {
      byField.set(field, (byField.get(field) ?? new Set()).add(message));
    }
  }
  if (byField.size === 0 && errors[0]) byField.set(pathOf(errors[0]), new Set(['has no accepted form']));
  return [...byField].slice(0, 100).map(([field, messages]) => ({ field, message: [...messages].join(', or ') }));
}

/** False for errors of a union that add nothing: those of its `null` branch. */
function isTelling(error: TLocalizedValidationError) {
  // An unknown field gets a `boolean` error beside the one that names it.
  if (error.keyword === 'anyOf' || error.keyword === 'boolean') return false;
  return !(error.keyword === 'type' && 'type' in error.params && error.params.type === 'null');
}

/**
 * True for an error of a union of object and array that concerns the form that was not sent. If the value is neither,
 * the error of the object stays.
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
    const message = names ? `must have a name that matches ${names}` : 'is not a known field';
    return error.params.additionalProperties.map((name) => ({ field: inside(name.slice(0, 100)), message }));
  }
  if (error.keyword === 'enum') {
    return [{ field: path, message: `must be one of ${error.params.allowedValues.join(', ')}` }];
  }
  if (error.keyword === 'minProperties') return [{ field: path, message: 'must have at least one field' }];
  return [{ field: path, message: (error.keyword === 'pattern' && described(error, schema)) || error.message }];
}

/** Returns the description of a pattern, as a person can't read a long pattern. */
function described(error: TLocalizedValidationError, schema: TSchema): string | undefined {
  const description = nodesTo(error, schema).findLast((node) => node.description !== undefined)?.description;
  return description && `does not have the required form: ${description.replace(/\.$/, '')}`;
}

/** Returns the pattern that the names of an object's free members must match. */
const wantedNames = (error: TLocalizedValidationError, schema: TSchema) =>
  Object.keys(nodesTo(error, schema).findLast((node) => node.patternProperties)?.patternProperties ?? {})[0];

interface SchemaNode {
  description?: string;
  patternProperties?: object;
}

/** Returns the schema nodes on the path of the error, outermost first. */
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
