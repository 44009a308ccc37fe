/** Validation that Secrets and ConfigMaps share. */
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../../objects.js';
import type { FieldError } from '../../schema/index.js';
import { base64Problem } from '../base64.js';

const KEY = /^[-._a-zA-Z0-9]+$/;
const KEY_WORDS =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or " +
  "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
/** Maximum bytes of one object's data. */
const MAX_BYTES = 1024 * 1024;

export function dataErrors(data: unknown, field = 'data'): FieldError[] {
  const errors: FieldError[] = [];
  let size = 0;
  for (const [key, value] of Object.entries((data ?? {}) as Record<string, string>)) {
    const at = `${field}[${key}]`;
    const invalid = (detail: string) => errors.push({ type: 'FieldValueInvalid', field: at, badValue: key, detail });
    if (key.length > 253) invalid('must be no more than 253 characters');
    if (!KEY.test(key)) invalid(KEY_WORDS);
    else if (key === '.') invalid("must not be '.'");
    else if (key.startsWith('..')) invalid(key === '..' ? "must not be '..'" : "must not start with '..'");
    size += Buffer.byteLength(value);
  }
  if (size > MAX_BYTES) {
    errors.push({ type: 'FieldValueTooLong', field, detail: `may not be more than ${MAX_BYTES} bytes` });
  }
  return errors;
}

export function base64DataProblem(data: unknown): string | undefined {
  for (const value of Object.values((data ?? {}) as Record<string, unknown>)) {
    const problem = typeof value === 'string' ? base64Problem(value) : undefined;
    if (problem) return problem;
  }
  return undefined;
}

export function immutabilityErrors(object: KubeObject, old: KubeObject | undefined, fields: string[]): FieldError[] {
  if (!old?.immutable) return [];
  const detail = 'field is immutable when `immutable` is set';
  const changed = fields.filter((field) => !isDeepStrictEqual(object[field] ?? {}, old[field] ?? {}));
  if (!object.immutable) changed.unshift('immutable');
  return changed.map((field) => ({ type: 'FieldValueForbidden', field, detail }));
}
