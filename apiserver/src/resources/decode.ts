/**
 * Decodes a client's body into an object of the resource. It checks kind and version, reports or drops unknown fields,
 * and sets defaults.
 */

import type { KubeObject } from '../objects.js';
import { isObject, type JsonObject, type JsonSchema } from '../schema/json-schema.js';
import { badRequest } from '../status.js';
import type { Resource } from './resource.js';

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface Decoding {
  fieldValidation: FieldValidation;
  /** Receives warnings about accepted faults. */
  warnings: string[];
}

export function decode(resource: Resource, value: unknown, decoding: Decoding): KubeObject {
  const { kind, apiVersion } = resource;
  if (!isObject(value)) {
    throw badRequest(`the object provided is unrecognized (must be of type ${kind}): it is not a JSON object`);
  }
  checkKind(resource, value);
  value.apiVersion = apiVersion;
  value.kind = kind;
  value.metadata ??= {};
  if (!isObject(value.metadata))
    throw cannotHandle(resource, 'json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta');
  dropEmpty(value.metadata);
  reportUnknown(resource, resource.schema.prune(value), decoding);
  const problem = (resource.custom ? undefined : typeProblem(resource, value)) ?? resource.strategy.decode?.(value);
  if (problem) throw cannotHandle(resource, problem);
  resource.schema.applyDefaults(value);
  return value as KubeObject;
}

/** Removes empty fields, which count as absent. Empty managedFields have a meaning and stay. */
function dropEmpty(metadata: JsonObject): void {
  for (const field of ['labels', 'annotations', 'finalizers', 'ownerReferences']) {
    const value = metadata[field];
    const empty = Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;
    if (empty) delete metadata[field];
  }
}

function checkKind(resource: Resource, value: JsonObject): void {
  const { kind, apiVersion, version, custom } = resource;
  const text = () => JSON.stringify(value).slice(0, 1000);
  if (custom) {
    for (const [field, name] of [
      ['kind', 'Kind'],
      ['apiVersion', 'apiVersion'],
    ] as const) {
      if (value[field]) continue;
      throw badRequest(
        `the object provided is unrecognized (must be of type ${kind}): Object '${name}' is missing in '${text()}' ` +
          `(${text()})`,
      );
    }
    if (value.apiVersion !== apiVersion) {
      throw badRequest(
        `the API version in the data (${value.apiVersion}) does not match the expected API version (${apiVersion})`,
      );
    }
    if (value.kind === kind) return;
    throw badRequest(
      `${value.kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: converting ` +
        `(${value.kind}) to (${kind}): unknown conversion`,
    );
  }
  if (value.apiVersion !== undefined && value.apiVersion !== '' && value.apiVersion !== apiVersion) {
    throw badRequest(
      `${value.kind} in version ${JSON.stringify(String(value.apiVersion).split('/').at(-1))} cannot be handled as a ` +
        `${kind}: no kind ${JSON.stringify(value.kind)} is registered for version ` +
        `${JSON.stringify(value.apiVersion)} in scheme "pkg/runtime/scheme.go:110"`,
    );
  }
  if (value.kind !== undefined && value.kind !== '' && value.kind !== kind) {
    throw badRequest(
      `${value.kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: converting ` +
        `(${version}.${value.kind}) to (core.${kind}): unknown conversion`,
    );
  }
}

const cannotHandle = ({ kind, version }: Resource, why: string) =>
  badRequest(`${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`);

function reportUnknown(resource: Resource, paths: string[], { fieldValidation, warnings }: Decoding): void {
  if (paths.length === 0 || fieldValidation === 'Ignore') return;
  const words = paths.map((path) => `unknown field ${JSON.stringify(path)}`);
  if (fieldValidation === 'Warn') return void warnings.push(...words);
  throw cannotHandle(resource, `strict decoding error: ${words.join(', ')}`);
}

/**
 * Returns the error if a built-in kind has a field of the wrong type. The wire format requires the types, so it is a
 * 400 instead of a 422.
 */
function typeProblem({ schema, kind }: Resource, value: JsonObject): string | undefined {
  const wrong = schema
    .validate(value)
    .find(({ type, detail }) => (type === 'FieldValueTypeInvalid' || type === 'FieldValueInvalid') && isOfType(detail));
  if (!wrong) return undefined;
  const wanted = /must be of type (\w+)/.exec(wrong.detail)?.[1];
  const path = goPath(schema.source, wrong.field.replace(/\[[^\]]*\]/g, '').replace(/^<nil>$/, ''));
  return `json: cannot unmarshal ${goType(wrong.detail)} into Go struct field ${kind}.${path} of type ${wanted}`;
}

/** Base64 that can't be decoded has its own message for each kind. */
const isOfType = (detail: string) => detail.includes('must be of type') && !detail.includes('must be of type byte');

/** Returns the path as Go reports it: Go names the field of a map, not the map's key. */
function goPath(schema: JsonSchema, path: string): string {
  const names = path.split('.');
  let within: JsonSchema | undefined = schema;
  for (const [index, name] of names.entries()) {
    within = within?.items ?? within;
    if (isObject(within?.additionalProperties)) return names.slice(0, index).join('.');
    within = within?.properties?.[name];
  }
  return path;
}

const goType = (detail: string) => {
  const got = /: "(\w+)"$/.exec(detail)?.[1] ?? 'value';
  return got === 'integer' || got === 'float' ? 'number' : got === 'boolean' ? 'bool' : got;
};
