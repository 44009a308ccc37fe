/**
 * Describes a body, which Postgres gets unchanged: valid JSON, an object or an array, and its keys. Bodies are not
 * decoded into values, and large ones are read in short turns of the event loop.
 */
import { STEP_BYTES, type Steps } from '../../../bounds/turns.js';
import { invalidBody } from '../errors.js';
import { csvBody } from './csv.js';
import { formBody } from './form.js';
import { describeJson } from './json-body.js';

export interface Body {
  /** Text that Postgres expands: the body as sent, or the JSON of a form or a CSV. */
  bytes: Buffer;
  form: 'empty' | 'object' | 'array' | 'other';
  /** Keys of the object, or of each of the array's objects. */
  keys: string[];
  /** True for an object, or an array of objects that all have these keys. */
  isUniform: boolean;
  /** Type of the body as a function's only parameter. */
  type: 'json' | 'text' | 'xml' | 'bytea';
}

/** Types that every body can have. Other types that end in `+json` are accepted too. */
const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';
const CSV_TYPE = 'text/csv';

/** Types of bodies that can be a function's only argument as a whole. */
const WHOLE: Record<string, Body['type']> = {
  'text/plain': 'text',
  'text/xml': 'xml',
  'application/xml': 'xml',
  'application/octet-stream': 'bytea',
};

/** Content types that `curl -d` and `fetch` send by default. */
const UNASKED_TYPES = new Set([FORM_TYPE, 'text/plain']);

const typeOf = (contentType: string | undefined) => contentType?.split(';', 1)[0]?.trim().toLowerCase() || JSON_TYPE;

/** Returns a hint for a JSON body that was sent with a client's default type. */
export function contentTypeHint(bytes: Buffer, contentType: string | undefined): string | undefined {
  const looksLikeJson = /^\s*[[{]/.test(bytes.toString('latin1', 0, 64));
  if (!looksLikeJson || !UNASKED_TYPES.has(typeOf(contentType))) return undefined;
  return 'The body looks like JSON: send it with the header Content-Type: application/json';
}

/** Returns a hint for a body of another type. A call also accepts the types of a whole argument. */
const acceptedTypesHint = (isCall: boolean) => {
  const types = [JSON_TYPE, CSV_TYPE, FORM_TYPE, ...(isCall ? Object.keys(WHOLE) : [])];
  return `Send the body with one of these Content-Type headers: ${types.join(', ')}`;
};

export function* parseBody(bytes: Buffer, contentType: string | undefined, isCall: boolean): Steps<Body> {
  const type = typeOf(contentType);
  if (type === JSON_TYPE || type.endsWith('+json')) {
    if (bytes.length === 0) return { bytes, form: 'empty', keys: [], isUniform: false, type: 'json' };
    return { bytes, type: 'json', ...(yield* describeJson(bytes)) };
  }
  if (type === FORM_TYPE) {
    const { json, keys } = yield* formBody(bytes);
    return { bytes: json, form: 'object', keys, isUniform: true, type: 'json' };
  }
  if (type === CSV_TYPE) {
    const { json, keys } = yield* csvBody(bytes);
    return { bytes: json, form: 'array', keys, isUniform: true, type: 'json' };
  }
  const whole = isCall && Object.hasOwn(WHOLE, type) ? WHOLE[type] : undefined;
  if (!whole) throw invalidBody(`Content-Type not acceptable: ${type}`).withHint(acceptedTypesHint(isCall));
  const value = whole === 'bytea' ? yield* hexOf(bytes) : bytes;
  return { bytes: value, form: 'other', keys: [], isUniform: false, type: whole };
}

/** Returns the bytes in Postgres' text format of bytea. */
function* hexOf(bytes: Buffer): Steps<Buffer> {
  const hex = Buffer.allocUnsafe(2 + 2 * bytes.length);
  let length = hex.write('\\x', 'latin1');
  for (let at = 0; at < bytes.length; at += STEP_BYTES) {
    if (at > 0) yield;
    length += hex.write(bytes.toString('hex', at, at + STEP_BYTES), length, 'latin1');
  }
  return hex;
}
