/**
 * Wraps the rows of a statement into the one row of the result: the body as text, and the values of the response's
 * head. The order of its columns is RESULT_COLUMNS.
 */
import type { FunctionRow } from '../catalogue/catalogue.js';
import type { CustomMedia, Representation } from '../request/media.js';
import { qualified } from './writer.js';

export const RESULT_COLUMNS = ['body', 'rows', 'total', 'inserted', 'keys', 'status', 'headers'] as const;

export interface ResultParts {
  /** Statements whose results may be referenced: `pgrst_source as (…)`. */
  with: string[];
  /** Query of the body's rows. */
  rows: string;
  representation: Representation;
  routine: FunctionRow | undefined;
  table: { schema: string; name: string } | undefined;
  /** False: the rows are only counted. */
  wantsBody: boolean;
  total?: string;
  inserted?: string;
  keys?: string;
  /** Undoes the statement if it wrote more than `rows`; with `exactly` also if it wrote fewer. */
  bound?: { rows: number; exactly: boolean };
}

/**
 * Matches the error that a statement raises to undo a write with too many rows: an invalid cast whose text has the
 * count.
 */
export const BOUND_ERROR = /"pgrst-rows:(\d+)"/;

export function resultSql(parts: ResultParts): string {
  const { bound, total = 'null', inserted = 'null', keys = 'null' } = parts;
  const rows = bound
    ? `case when count(_t) ${bound.exactly ? '<>' : '>'} ${bound.rows} ` +
      `then ('pgrst-rows:' || count(_t))::int else count(_t) end`
    : 'count(_t)';
  const columns = [
    parts.wantsBody ? bodyOf(parts) : 'null',
    rows,
    total,
    inserted,
    keys,
    setting('status'),
    setting('headers'),
  ];
  const page = `pgrst_page as materialized (${parts.rows})`;
  const isCsv = parts.representation.media === 'csv';
  const statements = isCsv ? [...parts.with, page] : parts.with;
  const prefix = statements.length > 0 ? `with ${statements.join(', ')} ` : '';
  const named = columns.map((column, i) => `${column} as ${RESULT_COLUMNS[i]}`);
  return `${prefix}select ${named.join(', ')} from ${isCsv ? 'pgrst_page' : `(${parts.rows})`} _t`;
}

const setting = (name: string) => `nullif(current_setting('response.${name}', true), '')`;

function bodyOf(parts: ResultParts): string {
  const { representation, routine } = parts;
  if (representation.media === 'csv') return CSV;
  if (representation.custom) return customOf(representation.custom, parts);
  const isScalar = routine?.returns === 'scalar';
  const item = isScalar ? '_t.pgrst_scalar' : '_t';
  const array = representation.stripNulls ? `json_strip_nulls(json_agg(${item}))` : `json_agg(${item})`;
  const isOne = representation.media === 'object' || (routine !== undefined && !routine.returnsSet);
  return isOne ? `coalesce((${array}->0)::text, 'null')` : `coalesce(${array}::text, '[]')`;
}

function customOf({ aggregate }: CustomMedia, { routine, table }: ResultParts): string {
  if (!aggregate) return '(array_agg(_t.pgrst_scalar))[1]::text';
  const row = aggregate.isOfTable && table ? `_t::${qualified(table)}` : '_t';
  return `${qualified(aggregate)}(${routine?.returns === 'scalar' ? '_t.pgrst_scalar' : row})::text`;
}

const CSV = `(select coalesce(string_agg(k, ','), '')
  from json_object_keys((select row_to_json(p) from pgrst_page p limit 1)) k)
  || E'\\n' || coalesce(string_agg(substring(_t::text, 2, length(_t::text) - 2), E'\\n'), '')`;
