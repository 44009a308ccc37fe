/** What a body looks like, told before it goes to Postgres as it came: valid JSON, an object or an array, and its keys. */
import { invalidBody } from '../errors.js';
import { csvRows } from './csv.js';

export interface Body {
  /** The text that Postgres expands: the body as sent, or what a form or a CSV says. */
  bytes: Buffer;
  form: 'empty' | 'object' | 'array' | 'other';
  /** Of the object, or of each of the array's objects. */
  keys: string[];
  /** As a function's only parameter takes it. */
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
    return { bytes: Buffer.from(JSON.stringify(fields)), form: 'object', keys: Object.keys(fields), type: 'json' };
  }
  if (type === 'text/csv') {
    const rows = csvRows(bytes.toString());
    return { bytes: Buffer.from(JSON.stringify(rows)), form: 'array', keys: commonKeys(rows), type: 'json' };
  }
  const whole = isCall && Object.hasOwn(WHOLE, type) ? WHOLE[type] : undefined;
  if (!whole) throw invalidBody(`Content-Type not acceptable: ${type}`);
  // As Postgres reads a bytea parameter.
  const value = whole === 'bytea' ? Buffer.from(`\\x${bytes.toString('hex')}`) : bytes;
  return { bytes: value, form: 'other', keys: [], type: whole };
}

function parseJson(bytes: Buffer): Body {
  if (bytes.length === 0) return { bytes, form: 'empty', keys: [], type: 'json' };
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString());
  } catch {
    throw invalidBody();
  }
  if (Array.isArray(json)) return { bytes, form: 'array', keys: commonKeys(json), type: 'json' };
  if (json && typeof json === 'object') return { bytes, form: 'object', keys: Object.keys(json), type: 'json' };
  return { bytes, form: 'other', keys: [], type: 'json' };
}

/** Rows of one insert have the same columns; keys of other arrays matter to nobody. */
function commonKeys(array: unknown[]): string[] {
  const first = array[0];
  return first && typeof first === 'object' && !Array.isArray(first) ? Object.keys(first) : [];
}

/** For an insert without `columns`. Node has parsed it before: it is valid JSON. */
export function requireUniformRows(body: Body): void {
  if (body.form === 'other') throw invalidBody('All object keys must match');
  if (body.form !== 'array') return;
  const keys = new Set(body.keys);
  for (const row of JSON.parse(body.bytes.toString()) as unknown[]) {
    const own = row && typeof row === 'object' && !Array.isArray(row) ? Object.keys(row) : undefined;
    if (own?.length !== keys.size || !own.every((key) => keys.has(key)))
      throw invalidBody('All object keys must match');
  }
}
