/** PostgreSQL's text of a value as JSON: a number only where a double holds it exactly, dates as ISO 8601. */
import pg from 'pg';

type Reader = (text: string) => unknown;

const MAX_EXACT_DIGITS = 15;
/** Postgres and JSON.parse take more than JSON.stringify, which calls itself for each. */
export const JSON_LEVELS = 1000;

export class TooDeep extends Error {}

const exactNumber: Reader = (text) => {
  const digits = text.replace(/[eE].*$|[-.]/g, '').replace(/^0+/, '');
  const value = Number(text);
  return digits.length <= MAX_EXACT_DIGITS && Number.isFinite(value) ? value : text;
};
/** A float is a double already: its shortest text is read back to the same. */
const float: Reader = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
const bool: Reader = (text) => text === 't';
const json: Reader = (text) => {
  const value = JSON.parse(text) as unknown;
  if (isDeeper(value, JSON_LEVELS)) throw new TooDeep();
  return value;
};
function isDeeper(value: unknown, levels: number): boolean {
  let level = objectsOf([value]);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === levels) return true;
    level = level.flatMap((item) => objectsOf(Object.values(item)));
  }
  return false;
}
const objectsOf = (values: unknown[]) =>
  values.filter((value): value is object => typeof value === 'object' && value !== null);
const timestamp: Reader = (text) => text.replace(/^(\d{4,}-\d\d-\d\d) /, '$1T').replace(/([+-]\d\d)$/, '$1:00');

/** By the type's OID, which is fixed for built-in types. */
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

/** The OID of a type's array, and of the type. */
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
  return (text) => arrayParser.create(text, (item) => (item === null ? null : read(item))).parse();
}

/** Undefined for a type that is not built in. */
export const typeName = (oid: number): string | undefined => TYPES[oid]?.[0];

export const jsonValue = (text: string | null, oid: number): unknown => {
  const read = TYPES[oid]?.[1];
  return text === null || !read ? text : read(text);
};
