/**
 * JSON text of a change's `data` for clients, with the columns that a role may read. Values are written as by
 * `to_jsonb`.
 */
import type { ApiRole } from '@slipway/installation';
import type { Change } from './stream.js';
import type { Column, Shape, Table } from './tables.js';

/** Maximum bytes of a value that is kept in an oversized change. */
const SMALL_VALUE_BYTES = 64;

export interface View {
  role: ApiRole;
  /** If set, only these columns and the primary key are sent. */
  select: readonly string[] | undefined;
}

export type Values = ReadonlyMap<string, string | null>;

export function valuesOf(change: Change, of: 'record' | 'old'): Values {
  const { columns } = change.relation;
  const values = new Map<string, string | null>();
  if (of === 'old') {
    const keysOnly = change.old?.isKey ?? true;
    // An update that keeps the key sends no old row: its key is that of the new row.
    const tuple = change.old?.values ?? change.record ?? [];
    columns.forEach(({ name, isKey }, at) => {
      const value = tuple[at];
      if (value !== undefined && (!keysOnly || isKey)) values.set(name, value);
    });
    return values;
  }
  columns.forEach(({ name }, at) => {
    // Stored out of line and unchanged: the value is in the old row, if that was sent as a whole.
    const value = change.record?.[at] === undefined ? change.old?.values[at] : change.record[at];
    if (value !== undefined) values.set(name, value);
  });
  return values;
}

export function changeData(change: Change, table: Table, view: View, recordBytes: number): string {
  const seen = [...table.columns.values()].filter((column) => isSeen(column, view));
  const whole = write(change, table, seen, Number.POSITIVE_INFINITY);
  if (whole.length <= recordBytes) return whole;
  return write(change, table, seen, SMALL_VALUE_BYTES);
}

const isSeen = ({ name, readers, isPrimaryKey }: Column, { role, select }: View) =>
  readers.has(role) && (select === undefined || isPrimaryKey || select.includes(name));

function write(change: Change, table: Table, seen: Column[], largest: number): string {
  const columns = seen.map(({ name, typeName }) => ({ name, type: typeName }));
  const parts = [
    `"schema":${JSON.stringify(table.schema)},"table":${JSON.stringify(table.name)},"type":"${change.type}"`,
    `"commit_timestamp":"${change.committedAt.toISOString()}","columns":${JSON.stringify(columns)}`,
  ];
  if (change.type !== 'DELETE') parts.push(`"record":${object(seen, valuesOf(change, 'record'), largest)}`);
  if (change.type !== 'INSERT') {
    // Postgres can't check the permission to read a deleted row, so only its key is sent.
    const shown = change.type === 'DELETE' && table.isRlsEnabled ? seen.filter((column) => column.isPrimaryKey) : seen;
    parts.push(`"old_record":${object(shown, valuesOf(change, 'old'), largest)}`);
  }
  const errors = Number.isFinite(largest) ? '["Error 413: Payload Too Large"]' : 'null';
  return `{${parts.join()},"errors":${errors}}`;
}

/** Payload of a change whose values the subscriber may not see. */
export const failedData = ({ type }: Change, { schema, name }: Table, error: string): string =>
  JSON.stringify({ schema, table: name, type, errors: [error] });

function object(columns: Column[], values: Values, largest: number): string {
  const fields = columns.flatMap(({ name, shape }) => {
    const value = values.get(name);
    if (value === undefined || (value !== null && value.length > largest)) return [];
    return `${JSON.stringify(name)}:${jsonOf(value, shape)}`;
  });
  return `{${fields.join()}}`;
}

/** Types that `to_jsonb` writes as numbers. */
const NUMBERS = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric']);

/** Converts a value to JSON, as `to_jsonb` does. `text` is Postgres' output of it. */
export function jsonOf(text: string | null, { baseType, delimiters }: Shape): string {
  if (text === null) return 'null';
  if (delimiters !== '') return arrayOf(text, delimiters.charAt(0), { baseType, delimiters: delimiters.slice(1) });
  if (NUMBERS.has(baseType)) return /^-?[\d.]/.test(text) ? text : JSON.stringify(text);
  if (baseType === 'bool') return text === 't' ? 'true' : 'false';
  if (baseType === 'json' || baseType === 'jsonb') return text;
  if (baseType === 'timestamp') return JSON.stringify(text.replace(' ', 'T'));
  if (baseType === 'timestamptz') return JSON.stringify(text.replace(' ', 'T').replace(/([+-]\d\d)( BC)?$/, '$1:00$2'));
  return JSON.stringify(text);
}

/**
 * Parses an array such as `{1,"a b",NULL,{…}}`, also with bounds before it, as in `[2:3]={1,2}`, or an `int2vector`
 * such as `1 2`. https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
 */
function arrayOf(text: string, delimiter: string, element: Shape): string {
  if (!/^[{[]/.test(text)) return `[${(text.match(/\S+/g) ?? []).map((value) => jsonOf(value, element)).join()}]`;
  let at = text.startsWith('[') ? text.indexOf('{') : 0;
  const read = (): string => {
    const parts: string[] = [];
    at++;
    while (text[at] !== '}' && at < text.length) {
      if (text[at] === '{') parts.push(read());
      else if (text[at] === '"') parts.push(jsonOf(quoted(), element));
      else parts.push(bare());
      if (text[at] === delimiter) at++;
    }
    at++;
    return `[${parts.join()}]`;
  };
  const quoted = (): string => {
    let value = '';
    for (at++; text[at] !== '"' && at < text.length; at++) {
      if (text[at] === '\\') at++;
      value += text[at];
    }
    at++;
    return value;
  };
  const bare = (): string => {
    const begin = at;
    while (at < text.length && text[at] !== delimiter && text[at] !== '}') at++;
    const value = text.slice(begin, at);
    return value === 'NULL' ? 'null' : jsonOf(value, element);
  };
  return read();
}
