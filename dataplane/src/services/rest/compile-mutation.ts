/** Compiles the statement that writes rows of a table and returns them, for insert, update, delete and PUT. */
import type { Table } from './catalogue/catalogue.js';
import { invalidBody, RestError } from './errors.js';
import type { ReadNode } from './plan/read-plan.js';
import type { ApiRequest, RepresentedRequest } from './request/api-request.js';
import type { Condition } from './request/grammar.js';
import type { parseQueryString } from './request/query-string.js';
import { deleteSql, INSERTED_COUNT, insertSql, type Mutation, updateSql } from './statement/mutate.js';
import { readSql } from './statement/read.js';
import { resultSql } from './statement/result.js';
import { identifier, Writer } from './statement/writer.js';

export function mutationStatement(
  request: RepresentedRequest,
  table: Table,
  node: ReadNode,
  query: ReturnType<typeof parseQueryString>,
) {
  const mutation = mutationOf(request, table, node, query);
  const writer = new Writer();
  // The written rows are selected under the table's own name.
  const alias = writer.alias(table.name);
  const writing = mutationSql(writer, request, mutation);
  const wantsBody = mutation.returning === 'columns';
  const read = { ...node, conditions: [] };
  const rows = wantsBody ? readSql(writer, read, { source: 'pgrst_source', alias }, '') : 'select 1 from pgrst_source';
  const keys = table.primaryKey.map(identifier).join(', ');
  const bound = boundOf(request);
  const text = resultSql({
    with: [`pgrst_source as (${writing})`],
    rows,
    representation: request.representation,
    routine: undefined,
    table,
    wantsBody,
    ...(mutation.returning === 'keys'
      ? {
          keys:
            '(select json_object_agg(key, value) from json_each_text(' +
            `(select row_to_json(k) from (select ${keys} from pgrst_source limit 1) k)))`,
        }
      : {}),
    ...(request.action === 'insert' || request.action === 'put' ? { inserted: INSERTED_COUNT } : {}),
    ...(bound ? { bound } : {}),
  });
  return { statement: { text, sources: writer.sources } };
}

function boundOf({ preferences, representation, action }: RepresentedRequest) {
  if (representation.media === 'object') return { rows: 1, exactly: true };
  const counts = action === 'update' || action === 'delete';
  if (!counts || preferences.handling !== 'strict' || preferences.maxAffected === undefined) return undefined;
  return { rows: preferences.maxAffected, exactly: false };
}

function mutationSql(writer: Writer, { action }: ApiRequest, mutation: Mutation): string {
  if (action === 'update') return updateSql(writer, mutation);
  if (action === 'delete') return deleteSql(writer, mutation);
  return insertSql(writer, mutation, action === 'put');
}

function mutationOf(
  request: ApiRequest,
  table: Table,
  node: ReadNode,
  query: ReturnType<typeof parseQueryString>,
): Mutation {
  const { body, preferences, action } = request;
  const isPut = action === 'put';
  if (isPut) requireKeyFilters(table, node.conditions);
  const columns = action === 'delete' ? [] : bodyColumns(request, table, query.columns);
  const wantsKeys = action === 'insert' && preferences.return === 'headers-only' && table.primaryKey.length > 0;
  return {
    table,
    columns,
    bodyIsArray: body?.form === 'array',
    missingDefaults: preferences.missing === 'default',
    resolution: isPut ? 'merge-duplicates' : preferences.resolution,
    conflict: (!isPut && query.onConflict) || table.primaryKey,
    node,
    returning: preferences.return === 'representation' ? 'columns' : wantsKeys ? 'keys' : 'nothing',
  };
}

function bodyColumns({ body, action }: ApiRequest, table: Table, requested: string[] | undefined): string[] {
  if (!body || body.form === 'empty' || body.form === 'other') throw invalidBody();
  if (requested === undefined && action === 'insert' && !body.isUniform)
    throw invalidBody('All object keys must match');
  const columns = requested ?? body.keys;
  const unknown = columns.find((column) => !table.columns.has(column));
  if (unknown !== undefined)
    throw new RestError(
      400,
      'PGRST204',
      `Could not find the '${unknown}' column of '${table.name}' in the schema cache`,
    );
  return columns;
}

/** Checks a PUT, which names one row: all columns of the primary key with `eq`, and nothing else. */
function requireKeyFilters(table: Table, conditions: Condition[]): void {
  const named = conditions.map((each) =>
    each.kind === 'filter' &&
    !each.negated &&
    each.operation.kind === 'compare' &&
    each.operation.operator === 'eq' &&
    each.field.path.length === 0
      ? each.field.name
      : undefined,
  );
  const isKey =
    table.primaryKey.length > 0 &&
    named.length === table.primaryKey.length &&
    table.primaryKey.every((column) => named.includes(column));
  if (!isKey)
    throw new RestError(405, 'PGRST105', "Filters must include all and only primary key columns with 'eq' operators");
}
