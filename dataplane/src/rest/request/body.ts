/** What a body looks like, told before it goes to Postgres as it came: valid JSON, an object or an array, and its keys. */
import { invalidBody } from '../errors.js';

export interface Body {
  /** The text that Postgres expands: the body as sent, or what a form says. */
  bytes: Buffer;
  form: 'empty' | 'object' | 'array' | 'other';
  /** Of the object, or of each of the array's objects. */
  keys: string[];
}

export function parseBody(bytes: Buffer, contentType: string | undefined): Body {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() || 'application/json';
  if (type === 'application/x-www-form-urlencoded') {
    const fields = Object.fromEntries(new URLSearchParams(bytes.toString()));
    return { bytes: Buffer.from(JSON.stringify(fields)), form: 'object', keys: Object.keys(fields) };
  }
  if (type !== 'application/json' && !type.endsWith('+json')) throw invalidBody(`Content-Type not acceptable: ${type}`);
  return parseJson(bytes);
}

function parseJson(bytes: Buffer): Body {
  if (bytes.length === 0) return { bytes, form: 'empty', keys: [] };
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString());
  } catch {
    throw invalidBody();
  }
  if (Array.isArray(json)) return { bytes, form: 'array', keys: commonKeys(json) };
  if (json && typeof json === 'object') return { bytes, form: 'object', keys: Object.keys(json) };
  return { bytes, form: 'other', keys: [] };
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
