/**
 * From request to statement: parsed request → plan → SQL, each a pure function of the one before and the catalogue.
 * Out: a CompiledRequest that serves every request of the same shape.
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
import { qualified, type Source } from './statement/writer.js';

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

function compileCall(catalogue: Catalogue, asked: ApiRequest): Compiled {
  const { schema, body, method } = asked;
  const name = asked.target.kind === 'function' ? asked.target.name : '';
  const query = parseQueryString(asked.parameters, true);
  const posted = method === 'POST';
  const names = posted ? postedNames(body, query.columns) : [...new Set(query.parameters.map((each) => each.name))];
  const call = planCall(catalogue, schema, name, names, posted ? (body?.type ?? 'json') : undefined);
  const { returnsTable, volatility, returns } = call.routine;
  const table = returnsTable ? catalogue.table(returnsTable.schema, returnsTable.name) : undefined;
  const shaped = returns === 'composite' ? query : { ...query, select: parseQueryString([], true).select };
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
