/**
 * Converts PostgreSQL's text of a value to JSON: a number only if a double represents it exactly, dates as ISO 8601.
 */
import { countValues, type JsonBound, JsonRefusal, ONE_TURN, parseExactJson } from '@slipway/program';
import pg from 'pg';

type Reader = (text: string) => unknown;

const MAX_EXACT_DIGITS = 15;
/** Maximum levels of nested JSON. Postgres accepts more levels than JSON.stringify, which is recursive. */
export const JSON_LEVELS = 1000;

/**
 * Maximum characters of an array that is parsed. A longer one stays text: parsing this much takes about 10 ms of
 * processor time.
 */
const MOST_OF_ARRAY = { plain: 64 * 1024, other: 16 * 1024 };
/** Matches an array of one dimension without quotes. */
const PLAIN_ARRAY = /^\{[^"\\{]*\}$/;
const MOST_OF_VALUE: JsonBound = { ...ONE_TURN, depth: JSON_LEVELS };
const MOST_OF_JSON: JsonBound = { bytes: ONE_TURN.bytes, depth: JSON_LEVELS, values: Number.POSITIVE_INFINITY };

export class TooDeep extends Error {}

const exactNumber: Reader = (text) => {
  const digits = text.replace(/[eE].*$|[-.]/g, '').replace(/^0+/, '');
  const value = Number(text);
  return digits.length <= MAX_EXACT_DIGITS && Number.isFinite(value) ? value : text;
};
/** A float is a double already, and its shortest text parses to the same value. */
const float: Reader = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
const bool: Reader = (text) => text === 't';
/** Leaves a value as text that is too large for one turn of the event loop. */
const json: Reader = (text) => {
  try {
    return parseExactJson(text, MOST_OF_VALUE);
  } catch (error) {
    if (error instanceof JsonRefusal && error.reason === 'depth') throw new TooDeep();
    return text;
  }
};
const timestamp: Reader = (text) => text.replace(/^(\d{4,}-\d\d-\d\d) /, '$1T').replace(/([+-]\d\d)$/, '$1:00');

/** Converters by OID of the type, which is fixed for built-in types. */
const TYPES: Record<number, [name: string, read?: Reader]> = {
  16: ['bool', bool],
  17: ['bytea'],
  18: ['char'],
  19: ['name'],
  20: ['int8', exactNumber],
  21: ['int2', exactNumber],
  23: ['int4', exactNumber],
  25: ['text'],
  26: ['oid', exactNumber],
  114: ['json', json],
  700: ['float4', float],
  701: ['float8', float],
  705: ['unknown'],
  869: ['inet'],
  650: ['cidr'],
  1042: ['bpchar'],
  1043: ['varchar'],
  1082: ['date'],
  1083: ['time'],
  1114: ['timestamp', timestamp],
  1184: ['timestamptz', timestamp],
  1186: ['interval'],
  1266: ['timetz'],
  1560: ['bit'],
  1562: ['varbit'],
  1700: ['numeric', exactNumber],
  2205: ['regclass'],
  2249: ['record'],
  2278: ['void'],
  2950: ['uuid'],
  3802: ['jsonb', json],
};

/** Pairs of OIDs: of an array type, and of its element type. */
const ARRAYS: [array: number, element: number][] = [
  [1000, 16],
  [1001, 17],
  [1002, 18],
  [1003, 19],
  [1016, 20],
  [1005, 21],
  [1007, 23],
  [1009, 25],
  [1028, 26],
  [199, 114],
  [1021, 700],
  [1022, 701],
  [1041, 869],
  [651, 650],
  [1014, 1042],
  [1015, 1043],
  [1182, 1082],
  [1183, 1083],
  [1115, 1114],
  [1185, 1184],
  [1187, 1186],
  [1270, 1266],
  [1231, 1700],
  [2951, 2950],
  [3807, 3802],
];

for (const [array, element] of ARRAYS) {
  const [name, read] = TYPES[element] as [string, Reader?];
  TYPES[array] = [`${name}[]`, arrayOf(read ?? ((text) => text))];
}

function arrayOf(read: Reader): Reader {
  const { arrayParser } = pg.types as unknown as {
    arrayParser: { create(text: string, read: (item: string | null) => unknown): { parse(): unknown[] } };
  };
  const readItem = (item: string | null) => (item === null ? null : read(item));
  const plain = (text: string) =>
    text === '{}'
      ? []
      : text
          .slice(1, -1)
          .split(',')
          .map((item) => readItem(item === 'NULL' ? null : item));
  return (text) => {
    if (text.length > MOST_OF_ARRAY.plain) return text;
    if (PLAIN_ARRAY.test(text)) return plain(text);
    return text.length > MOST_OF_ARRAY.other ? text : arrayParser.create(text, readItem).parse();
  };
}

/** Returns undefined for a type that is not built in. */
export const typeName = (oid: number): string | undefined => TYPES[oid]?.[0];

export const jsonValue = (text: string | null, oid: number): unknown => {
  const read = TYPES[oid]?.[1];
  return text === null || !read ? text : read(text);
};

const JSON_TYPES = new Set([114, 3802]);
/** Number of characters that are written at once; each may take six characters in JSON. */
const PART = 32 * 1024;

/** Returns the JSON of a value in parts. A JSON value is Postgres' own text. */
export function* jsonText(text: string | null, oid: number): Generator<string, void, void> {
  if (text !== null && JSON_TYPES.has(oid) && text.length <= MOST_OF_JSON.bytes) return yield ofLevels(text);
  const value = jsonValue(text, oid);
  if (typeof value !== 'string') return yield JSON.stringify(value);
  yield '"';
  for (let at = 0, end = 0; at < value.length; at = end) {
    end = at + PART;
    // Half of a surrogate pair would be written as an escape.
    if (isHighSurrogate(value.charCodeAt(end - 1))) end++;
    yield JSON.stringify(value.slice(at, end)).slice(1, -1);
  }
  yield '"';
}

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;

function ofLevels(text: string): string {
  try {
    countValues(Buffer.from(text), MOST_OF_JSON);
  } catch {
    throw new TooDeep();
  }
  return text;
}
