/**
 * Compiles a request: parsed request → plan → SQL, each a pure function of the previous stage and the catalogue. Out: a
 * CompiledRequest that serves every request of the same shape.
 */
import type { Catalogue, Table } from './catalogue/catalogue.js';
import { mutationStatement } from './compile-mutation.js';
import { type CompiledStatement, readStatements } from './compile-read.js';
import { RestError } from './errors.js';
import { type CallPlan, planCall } from './plan/call-plan.js';
import { planRead } from './plan/read-plan.js';
import { closest } from './plan/similar.js';
import { represented } from './representation.js';
import type { ApiRequest, RepresentedRequest } from './request/api-request.js';
import { parseQueryString } from './request/query-string.js';
import { valueStart } from './request/shape.js';
import { type Arguments, callSql } from './statement/call.js';
import { qualified, type Source, type Writer } from './statement/writer.js';

export interface CompiledRequest {
  request: RepresentedRequest;
  statement: CompiledStatement;
  /** EXPLAIN of the rows of a planned or estimated count. */
  explain: CompiledStatement | undefined;
  readOnly: boolean;
  table: Table | undefined;
  call: CallPlan | undefined;
  /** False if the statement contains a value in which requests of this shape may differ. */
  reusable: boolean;
}

export function compile(catalogue: Catalogue, request: ApiRequest): CompiledRequest {
  const compiled = request.action === 'call' ? compileCall(catalogue, request) : compileTable(catalogue, request);
  const { plan } = compiled.request.representation;
  if (plan) {
    const options = [`format ${plan.format}`, ...plan.options].join(', ');
    compiled.statement.text = `explain (${options}) ${compiled.statement.text}`;
  }
  return { ...compiled, reusable: isReusable(request, compiled.statement.sources) };
}

type Compiled = Omit<CompiledRequest, 'reusable'>;

/** Checks that every value outside of the shape is a parameter, at the position where the shape cut it. */
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

function compileTable(catalogue: Catalogue, apiRequest: ApiRequest): Compiled {
  const { schema, action } = apiRequest;
  const name = apiRequest.target.kind === 'root' ? '' : apiRequest.target.name;
  const table = catalogue.table(schema, name) ?? fail(tableNotFound(catalogue, schema, name));
  const query = parseQueryString(apiRequest.parameters, false);
  const node = planRead(catalogue, { schema, name, table }, query);
  const request = represented(catalogue, apiRequest, node, undefined);
  const base = { request, table, call: undefined };
  if (action === 'read')
    return { ...base, ...readStatements(request, node, { source: qualified(table), before: [] }), readOnly: true };
  return { ...base, ...mutationStatement(request, table, node, query), explain: undefined, readOnly: false };
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

function compileCall(catalogue: Catalogue, apiRequest: ApiRequest): Compiled {
  const { schema, body, method } = apiRequest;
  const name = apiRequest.target.kind === 'function' ? apiRequest.target.name : '';
  const query = parseQueryString(apiRequest.parameters, true);
  const posted = method === 'POST';
  const names = posted ? postedNames(body, query.columns) : [...new Set(query.parameters.map((each) => each.name))];
  const call = planCall(catalogue, { schema, name, names, bodyType: posted ? (body?.type ?? 'json') : undefined });
  const { returnsTable, volatility, returns } = call.routine;
  const table = returnsTable ? catalogue.table(returnsTable.schema, returnsTable.name) : undefined;
  const shaped = returns === 'composite' ? query : { ...query, select: parseQueryString([], true).select };
  const node = planRead(catalogue, { schema, name, table }, shaped);
  const request = represented(catalogue, apiRequest, node, call);
  const values: Arguments = posted ? { from: 'body', names } : { from: 'query', values: query.parameters };
  const source = { source: 'pgrst_source', before: [(writer: Writer) => callSql(writer, call, values)] };
  const statements = readStatements(request, node, source, { plan: call, bound: callBound(request, call) });
  return { request, ...statements, readOnly: !posted || volatility !== 'v', table, call };
}

const postedNames = (body: ApiRequest['body'], columns: string[] | undefined) =>
  body?.form === 'object' ? (columns ?? body.keys) : [];

/** Counts a function's rows before they are returned, so that a call beyond the limit is undone. */
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
