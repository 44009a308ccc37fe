/** Describes a body before Postgres gets it unchanged: valid JSON, an object or an array, and its keys. */
import { invalidBody } from '../errors.js';
import { csvRows } from './csv.js';

export interface Body {
  /** The text that Postgres expands: the body as sent, or what a form or a CSV says. */
  bytes: Buffer;
  form: 'empty' | 'object' | 'array' | 'other';
  /** Keys of the object, or of each of the array's objects. */
  keys: string[];
  /** It is an object, or each of the array's is one with these keys. */
  isUniform: boolean;
  /** The type by which a function's only parameter takes it. */
  type: 'json' | 'text' | 'xml' | 'bytea';
}

/** Bodies that are a function's only argument, whole. */
const WHOLE: Record<string, Body['type']> = {
  'text/plain': 'text',
  'text/xml': 'xml',
  'application/xml': 'xml',
  'application/octet-stream': 'bytea',
};

export function parseBody(bytes: Buffer, contentType: string | undefined, isCall: boolean): Body {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() || 'application/json';
  if (type === 'application/json' || type.endsWith('+json')) return parseJson(bytes);
  if (type === 'application/x-www-form-urlencoded') {
    const fields = Object.fromEntries(new URLSearchParams(bytes.toString()));
    return objectBody(Buffer.from(JSON.stringify(fields)), fields);
  }
  if (type === 'text/csv') {
    const rows = csvRows(bytes.toString());
    return arrayBody(Buffer.from(JSON.stringify(rows)), rows);
  }
  const whole = isCall && Object.hasOwn(WHOLE, type) ? WHOLE[type] : undefined;
  if (!whole) throw invalidBody(`Content-Type not acceptable: ${type}`);
  // As Postgres reads a bytea parameter.
  const value = whole === 'bytea' ? Buffer.from(`\\x${bytes.toString('hex')}`) : bytes;
  return { bytes: value, form: 'other', keys: [], isUniform: false, type: whole };
}

function parseJson(bytes: Buffer): Body {
  if (bytes.length === 0) return { bytes, form: 'empty', keys: [], isUniform: false, type: 'json' };
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString());
  } catch {
    throw invalidBody();
  }
  if (Array.isArray(json)) return arrayBody(bytes, json);
  if (json && typeof json === 'object') return objectBody(bytes, json);
  return { bytes, form: 'other', keys: [], isUniform: false, type: 'json' };
}

const objectBody = (bytes: Buffer, object: object): Body => ({
  bytes,
  form: 'object',
  keys: Object.keys(object),
  isUniform: true,
  type: 'json',
});

function arrayBody(bytes: Buffer, array: unknown[]): Body {
  const keys = commonKeys(array);
  return { bytes, form: 'array', keys, isUniform: isUniform(array, keys), type: 'json' };
}

/** Those of the first object: rows of one insert have the same ones, and keys of other arrays matter to nobody. */
const commonKeys = (array: unknown[]) => keysOf(array[0]) ?? [];

function isUniform(array: unknown[], keys: string[]): boolean {
  const known = new Set(keys);
  return array.every((row) => {
    const own = keysOf(row);
    return own?.length === known.size && own.every((key) => known.has(key));
  });
}

const keysOf = (row: unknown) => (row && typeof row === 'object' && !Array.isArray(row) ? Object.keys(row) : undefined);
