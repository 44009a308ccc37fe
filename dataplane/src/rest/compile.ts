/**
 * From request to statement: parsed request → plan → SQL, each a pure function of the one before and the catalogue. Out: a
 * CompiledRequest that serves every request of the same shape.
 */
import type { Catalogue, Table } from './catalogue/catalogue.js';
import { invalidBody, RestError } from './errors.js';
import { type CallPlan, planCall } from './plan/call-plan.js';
import { planRead, type ReadNode } from './plan/read-plan.js';
import { closest } from './plan/similar.js';
import type { ApiRequest, RepresentedRequest } from './request/api-request.js';
import { requireUniformRows } from './request/body.js';
import type { Condition } from './request/grammar.js';
import { type CustomMedia, negotiate } from './request/media.js';
import { parseQueryString } from './request/query-string.js';
import { valueStart } from './request/shape.js';
import { type Arguments, callSql } from './statement/call.js';
import { deleteSql, INSERTED_COUNT, insertSql, type Mutation, updateSql } from './statement/mutate.js';
import { countSql, readSql } from './statement/read.js';
import { resultSql } from './statement/result.js';
import { identifier, qualified, type Source, Writer } from './statement/writer.js';

export interface CompiledStatement {
  text: string;
  sources: Source[];
}

export interface CompiledRequest {
  request: RepresentedRequest;
  statement: CompiledStatement;
  /** EXPLAIN of the rows that a planned or estimated count is of. */
  explain: CompiledStatement | undefined;
  readOnly: boolean;
  table: Table | undefined;
  call: CallPlan | undefined;
  /** False: it holds a value that the next request of this shape may have another of. */
  reusable: boolean;
}

/** An estimated count is exact up to here. */
export const ESTIMATE_FROM = 1000;

export function compile(catalogue: Catalogue, request: ApiRequest): CompiledRequest {
  const compiled = request.action === 'call' ? compileCall(catalogue, request) : compileTable(catalogue, request);
  const { plan } = compiled.request.representation;
  if (plan)
    compiled.statement.text = `explain (${[`format ${plan.format}`, ...plan.options].join(', ')}) ${compiled.statement.text}`;
  return { ...compiled, reusable: isReusable(request, compiled.statement.sources) };
}

type Compiled = Omit<CompiledRequest, 'reusable'>;

/** Every value that the shape leaves out must be a parameter of the statement, from where the shape cut it. */
function isReusable(request: ApiRequest, sources: Source[]): boolean {
  const bound = new Set(
    sources.flatMap((source) => (source.from === 'query' ? [`${source.slot.parameter}:${source.slot.start}`] : [])),
  );
  const cut = request.parameters.flatMap(([name, value], parameter) => {
    const start = valueStart(name, value, request.action === 'call');
    return start === undefined ? [] : [`${parameter}:${start}`];
  });
  return cut.length === bound.size && cut.every((slot) => bound.has(slot));
}

function compileTable(catalogue: Catalogue, asked: ApiRequest): Compiled {
  const { schema, action } = asked;
  const name = asked.target.kind === 'root' ? '' : asked.target.name;
  const table = catalogue.table(schema, name) ?? fail(tableNotFound(catalogue, schema, name));
  const query = parseQueryString(asked.parameters, false);
  const node = planRead(catalogue, schema, name, table, query);
  const request = represented(catalogue, asked, node, undefined);
  const base = { request, table, call: undefined };
  if (action === 'read') return { ...base, ...readStatements(request, node, qualified(table), []), readOnly: true };
  return { ...base, ...mutationStatement(request, table, node, query), explain: undefined, readOnly: false };
}

function represented(
  catalogue: Catalogue,
  request: ApiRequest,
  node: ReadNode,
  call: CallPlan | undefined,
): RepresentedRequest {
  const { settings } = catalogue;
  const custom = (type: string) => customMedia(catalogue, node, call, type);
  return { ...request, representation: negotiate(request.accept, { plan: settings.plan, custom }) };
}

/** The media type of a table is that of whole rows: it needs all columns. */
function customMedia(
  catalogue: Catalogue,
  node: ReadNode,
  call: CallPlan | undefined,
  type: string,
): CustomMedia | undefined {
  if (type.startsWith('application/vnd.pgrst.')) return undefined;
  const named = (domain: string) => (domain !== '*/*' ? domain : type === '*/*' ? 'application/octet-stream' : type);
  const own = call?.routine.media;
  if (own && (own.type === type || own.type === '*/*'))
    return { type: named(own.type), isBytes: own.isBytes, aggregate: undefined };
  if (catalogue.handlers.length === 0) return undefined;
  const handler = catalogue.handler(node.table, type) ?? catalogue.handler(node.table, '*/*');
  if (!handler) return undefined;
  const isOfTable = handler.table !== null;
  if (isOfTable && (node.embeds.length > 0 || node.items.some(({ field }) => field.name !== '*'))) return undefined;
  return { type: named(handler.media), isBytes: handler.isBytes, aggregate: { ...handler, isOfTable } };
}

function fail(error: RestError): never {
  throw error;
}

function tableNotFound(catalogue: Catalogue, schema: string, name: string): RestError {
  const names = [...catalogue.tables.values()].filter((table) => table.schema === schema).map((table) => table.name);
  const meant = closest(name, names, 0.75);
  return new RestError(404, 'PGRST205', `Could not find the table '${schema}.${name}' in the schema cache`, {
    hint: meant === undefined ? null : `Perhaps you meant the table '${schema}.${meant}'`,
  });
}

/** `before`: statements whose result `source` names. */
function readStatements(
  request: RepresentedRequest,
  node: ReadNode,
  source: string,
  before: ((writer: Writer) => string)[],
  call?: CallPlan,
  bound?: { rows: number; exactly: boolean },
) {
  const writer = new Writer();
  const alias = writer.alias(node.name);
  const withs = before.map((write) => `pgrst_source as (${write(writer)})`);
  const rows =
    call?.routine.returns === 'scalar' || call?.routine.returns === 'void'
      ? 'select * from pgrst_source'
      : readSql(writer, node, source, alias, rangeSql(writer, request));
  const { count } = request.preferences;
  const limited = count === 'estimated' ? ` limit ${ESTIMATE_FROM + 1}` : '';
  const wantsCount = count === 'exact' || count === 'estimated' || (count === 'planned' && call !== undefined);
  const total = wantsCount ? `(${countSql(writer, node, source, alias, call ? '' : limited)})` : undefined;
  const text = resultSql({
    with: withs,
    rows,
    representation: request.representation,
    routine: call?.routine,
    table: node.table,
    wantsBody: !request.headOnly,
    ...(total === undefined ? {} : { total }),
    ...(bound ? { bound } : {}),
  });
  const plans = !call && (count === 'planned' || count === 'estimated');
  return { statement: { text, sources: writer.sources }, explain: plans ? explainStatement(node, source) : undefined };
}

function explainStatement(node: ReadNode, source: string): CompiledStatement {
  const writer = new Writer();
  const counted = countSql(writer, node, source, writer.alias(node.name));
  // Of the rows, not of the one row that counts them.
  const rows = counted.replace(/^select count\(\*\)/, 'select 1');
  return { text: `explain (format json) ${rows}`, sources: writer.sources };
}

function rangeSql(writer: Writer, { limit, hasOffset }: ApiRequest): string {
  const limited = limit === undefined ? '' : ` limit ${limit}`;
  return `${limited}${hasOffset ? ` offset ${writer.add({ from: 'offset' })}::bigint` : ''}`;
}

function mutationStatement(
  request: RepresentedRequest,
  table: Table,
  node: ReadNode,
  query: ReturnType<typeof parseQueryString>,
) {
  const mutation = mutationOf(request, table, node, query);
  const writer = new Writer();
  // The written rows are read under the table's own name.
  const alias = writer.alias(table.name);
  const writing = mutationSql(writer, request, mutation);
  const wantsBody = mutation.returning === 'columns';
  const read = { ...node, conditions: [] };
  const rows = wantsBody ? readSql(writer, read, 'pgrst_source', alias, '') : 'select 1 from pgrst_source';
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
      ? { keys: `(select row_to_json(k) from (select ${keys} from pgrst_source limit 1) k)` }
      : {}),
    ...(request.action === 'insert' || request.action === 'put' ? { inserted: INSERTED_COUNT } : {}),
    ...(bound ? { bound } : {}),
  });
  return { statement: { text, sources: writer.sources } };
}

function boundOf({ preferences, representation, action }: RepresentedRequest) {
  if (representation.media === 'object' && preferences.return === 'representation') return { rows: 1, exactly: true };
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

function bodyColumns({ body, action }: ApiRequest, table: Table, given: string[] | undefined): string[] {
  if (!body || body.form === 'empty' || body.form === 'other') throw invalidBody();
  if (given === undefined && action === 'insert') requireUniformRows(body);
  const columns = given ?? body.keys;
  const unknown = columns.find((column) => !table.columns.has(column));
  if (unknown !== undefined)
    throw new RestError(
      400,
      'PGRST204',
      `Could not find the '${unknown}' column of '${table.name}' in the schema cache`,
    );
  return columns;
}

/** PUT names one row: all columns of the primary key, each `eq`, and nothing else. */
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

function compileCall(catalogue: Catalogue, asked: ApiRequest): Compiled {
  const { schema, body, method } = asked;
  const name = asked.target.kind === 'function' ? asked.target.name : '';
  const query = parseQueryString(asked.parameters, true);
  const posted = method === 'POST';
  const names = posted ? postedNames(body, query.columns) : [...new Set(query.parameters.map((each) => each.name))];
  const call = planCall(catalogue, schema, name, names, posted ? (body?.type ?? 'json') : undefined);
  const { returnsTable, volatility, returns } = call.routine;
  const table = returnsTable ? catalogue.table(returnsTable.schema, returnsTable.name) : undefined;
  const shaped =
    returns === 'composite'
      ? query
      : { ...query, select: parseQueryString([], true).select, conditions: [], order: [] };
  const node = planRead(catalogue, schema, name, table, shaped);
  const request = represented(catalogue, asked, node, call);
  const given: Arguments = posted ? { from: 'body', names } : { from: 'query', values: query.parameters };
  const bound = callBound(request, call);
  const statements = readStatements(
    request,
    node,
    'pgrst_source',
    [(writer) => callSql(writer, call, given)],
    call,
    bound,
  );
  return { request, ...statements, readOnly: !posted || volatility !== 'v', table, call };
}

const postedNames = (body: ApiRequest['body'], columns: string[] | undefined) =>
  body?.form === 'object' ? (columns ?? body.keys) : [];

/** A function's rows are counted before they are answered: what it wrote for more than allowed is undone. */
function callBound({ preferences, representation }: RepresentedRequest, { routine }: CallPlan) {
  if (representation.media === 'object' && routine.returnsSet && routine.volatility === 'v')
    return { rows: 1, exactly: true };
  if (preferences.handling !== 'strict' || preferences.maxAffected === undefined) return undefined;
  if (!routine.returnsSet)
    throw new RestError(
      400,
      'PGRST128',
      'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
    );
  return { rows: preferences.maxAffected, exactly: false };
}
