/**
 * Fields of an entry as stored JSON text. In: fields in their order. Out: one object, in which a name that was sent
 * more than once has a list. Names such as `__proto__` are members like all others.
 */
import { type JsonBound, parseJson } from '@slipway/program';

export type FieldValue = string | number | boolean;
export type EntryData = Record<string, FieldValue | FieldValue[]>;

export const MOST_FIELDS = 100;
export const LONGEST_NAME = 100;

/** Characters of 64 KiB can be six times as long in JSON. */
const MOST_OF_DATA: JsonBound = { bytes: 1024 * 1024, depth: 3, values: 4 * MOST_FIELDS };

/** Bytes of an entry's row beside its data. */
const ROW_BYTES = 200;

export function entryText(fields: readonly (readonly [string, FieldValue])[]): { text: string; bytes: number } {
  const byName = new Map<string, FieldValue[]>();
  for (const [name, value] of fields) byName.set(name, [...(byName.get(name) ?? []), value]);
  const entries = [...byName].map(([name, values]) => [name, values.length === 1 ? values[0] : values] as const);
  // Object.fromEntries defines members, so that `__proto__` is one.
  const text = JSON.stringify(Object.fromEntries(entries));
  return { text, bytes: Buffer.byteLength(text) + ROW_BYTES };
}

export const readEntryText = (text: string): EntryData => parseJson(text, MOST_OF_DATA) as EntryData;
