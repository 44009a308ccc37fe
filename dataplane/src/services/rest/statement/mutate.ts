/**
 * Writes INSERT, UPDATE and DELETE. The body is one parameter, which Postgres expands into rows; `readSql` selects the
 * result from the written rows.
 */
import type { Table } from '../catalogue/catalogue.js';
import { isComputed } from '../catalogue/relationships.js';
import type { ReadNode } from '../plan/read-plan.js';
import type { Preferences } from '../request/preferences.js';
import { type Scope, whereSql } from './condition.js';
import { identifier, qualified, type Writer } from './writer.js';

export interface Mutation {
  table: Table;
  /** Columns that the body sets. */
  columns: string[];
  bodyIsArray: boolean;
  /** Absent keys become the columns' defaults instead of null. */
  missingDefaults: boolean;
  resolution: Preferences['resolution'];
  /** Columns whose values identify an existing row. */
  conflict: string[];
  /** Filters, and the selection of the written rows. */
  node: ReadNode;
  returning: 'columns' | 'keys' | 'nothing';
}

/** SQL for the number of inserted rows, without merged ones. It is evaluated after the rows are written. */
const INSERTED = `coalesce(nullif(current_setting('pgrst.inserted', true), ''), '0')`;
export const INSERTED_COUNT = `nullif(current_setting('pgrst.inserted', true), '')`;
const counted = (change: string) => `set_config('pgrst.inserted', (${INSERTED}::int ${change})::text, true) <> ''`;

const list = (columns: readonly string[]) => columns.map(identifier).join(', ');

export function insertSql(writer: Writer, mutation: Mutation, isPut: boolean): string {
  const { table, columns, node } = mutation;
  const name = identifier(table.name);
  const merges = mutation.conflict.length > 0 && mutation.resolution === 'merge-duplicates' && columns.length > 0;
  const scope: Scope = { node, alias: 'pgrst_body', embeds: new Map() };
  const filter = isPut ? whereSql(writer, scope, node.conditions) : '';
  const where = merges ? `${filter ? `${filter} and` : ' where'} ${counted('+ 1')}` : filter;
  const target = columns.length > 0 ? ` (${list(columns)})` : '';
  const rows = `select ${list(columns)} from ${bodySql(writer, mutation)}${where}`;
  const insert = `insert into ${qualified(table)} as ${name}${target} ${rows}`;
  return `${insert}${conflictSql(mutation, merges)}${returningSql(mutation)}`;
}

function conflictSql({ conflict, resolution, columns }: Mutation, merges: boolean): string {
  if (conflict.length === 0 || resolution === undefined) return '';
  const on = ` on conflict (${list(conflict)})`;
  if (!merges) return `${on} do nothing`;
  const assignments = columns.map((column) => `${identifier(column)} = excluded.${identifier(column)}`);
  return `${on} do update set ${assignments.join(', ')} where ${counted('- 1')}`;
}

export function updateSql(writer: Writer, mutation: Mutation): string {
  const { table, columns, node } = mutation;
  const scope: Scope = { node, alias: table.name, embeds: new Map() };
  // Without columns to set, the statement updates no row.
  if (columns.length === 0)
    return `select ${columnsOf(mutation)} from ${qualified(table)} as ${identifier(table.name)} where false`;
  const assignments = columns.map((column) => `${identifier(column)} = pgrst_body.${identifier(column)}`);
  const body = `(select ${list(columns)} from ${bodySql(writer, mutation)} limit 1) as pgrst_body`;
  const where = whereSql(writer, scope, node.conditions);
  const update = `update ${qualified(table)} as ${identifier(table.name)} set ${assignments.join(', ')}`;
  return `${update} from ${body}${where}${returningSql(mutation)}`;
}

export function deleteSql(writer: Writer, mutation: Mutation): string {
  const { table, node } = mutation;
  const scope: Scope = { node, alias: table.name, embeds: new Map() };
  const where = whereSql(writer, scope, node.conditions);
  return `delete from ${qualified(table)} as ${identifier(table.name)}${where}${returningSql(mutation)}`;
}

function bodySql(writer: Writer, { table, columns, bodyIsArray, missingDefaults }: Mutation): string {
  const body = writer.add({ from: 'body' });
  const json = missingDefaults ? 'jsonb' : 'json';
  const array = bodyIsArray ? `${body}::${json}` : `${json}_build_array(${body}::${json})`;
  // Without columns, each sent object inserts a row of defaults.
  if (columns.length === 0) return `${json}_array_elements(${array}) as pgrst_body`;
  return rowsOf(table, columns, json, missingDefaults ? withDefaults(table, columns, array) : array);
}

/**
 * Returns the rows to write, with only the written columns: a row of the whole table would have nulls for the others,
 * which a domain may reject. A domain may also define how its values are parsed from JSON.
 */
function rowsOf(table: Table, columns: string[], json: string, rows: string): string {
  const known = columns.flatMap((name) => table.columns.get(name) ?? []);
  const typed = known.map(({ name, type, fromJson }) => `${identifier(name)} ${fromJson ? 'json' : type}`);
  const read = known.map(({ name, fromJson }) =>
    fromJson ? `${fromJson}(${identifier(name)}) as ${identifier(name)}` : identifier(name),
  );
  return `(select ${read.join(', ')} from ${json}_to_recordset(${rows}) as _(${typed.join(', ')})) as pgrst_body`;
}

/** A default is an expression of the table's owner, from the catalogue. */
function withDefaults(table: Table, columns: string[], array: string): string {
  const pairs = columns.flatMap((column) => {
    const expression = table.columns.get(column)?.default;
    return expression ? [`${literal(column)}, ${expression}`] : [];
  });
  const element = `jsonb_build_object(${pairs.join(', ')}) || element`;
  return `(select jsonb_agg(${element}) from jsonb_array_elements(${array}) element)`;
}

/** Quotes a name of the catalogue. Backslashes are always escaped, independent of the session's settings. */
const literal = (name: string) => `E'${name.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;

function returningSql(mutation: Mutation): string {
  return ` returning ${columnsOf(mutation)}`;
}

/** Only the requested columns, because a caller may have fewer rights to read than to write. */
function columnsOf({ table, node, returning }: Mutation): string {
  if (returning === 'nothing') return '1';
  const names = returning === 'keys' ? new Set(table.primaryKey) : neededColumns(node);
  if (names.size === 0) return '1';
  const alias = identifier(table.name);
  return names.has('*') ? `${alias}.*` : [...names].map((name) => `${alias}.${identifier(name)}`).join(', ');
}

function neededColumns(node: ReadNode): Set<string> {
  const names = new Set(node.items.map(({ field }) => field.name));
  for (const { relation, field } of node.order) if (relation === undefined) names.add(field.name);
  for (const { relationship } of node.embeds) {
    // The function accepts the whole row.
    if (isComputed(relationship)) return new Set(['*']);
    const pairs = relationship.cardinality === 'many-to-many' ? relationship.near.pairs : relationship.pairs;
    for (const [own] of pairs) names.add(own);
  }
  return names;
}
