/**
 * The REST service of a project: PostgREST's wire. In: requests whose caller the gateway has decided. Out: answers, errors
 * included. A request passes through types: outline → ApiRequest → plan → statement → row → answer.
 */
import { readBody } from '../request-body.js';
import type { Service, ServiceRequest } from '../service.js';
import type { Result, Statement } from '../sql/pool.js';
import { DatabaseError } from '../sql/pool.js';
import type { Catalogue } from './catalogue/catalogue.js';
import { type CompiledRequest, type CompiledStatement, compile } from './compile.js';
import { maxAffectedExceeded, RestError, singularity, toRestError } from './errors.js';
import { identityStatement } from './identity.js';
import { describe } from './openapi.js';
import { apiRequest, type Outline, outlineOf } from './request/api-request.js';
import { type Body, parseBody } from './request/body.js';
import { contentType, negotiate } from './request/media.js';
import { type Parameters, splitQuery } from './request/query-string.js';
import { type RowRange, rowRange } from './request/range.js';
import { shapeOf } from './request/shape.js';
import { type Answer, answerOf, resultOf } from './response.js';
import { BOUND_ERROR } from './statement/result.js';
import { likePattern, type Source } from './statement/writer.js';
import { type PreparedRequest, TenantDatabase } from './tenant-database.js';
import { TenantDatabases } from './tenant-databases.js';

export interface RestOptions {
  /** Schemas that requests may name; the first is the default. */
  schemas?: readonly string[];
  connectionsPerProject?: number;
  /** Of all projects together. */
  connections?: number;
}

interface Exchange {
  request: ServiceRequest;
  database: TenantDatabase;
  outline: Outline;
  parameters: Parameters;
  body: Body | undefined;
  range: RowRange;
}

export function createRestService({
  schemas = ['public'],
  connectionsPerProject = 4,
  connections = 64,
}: RestOptions = {}): Service {
  const databases = new TenantDatabases(schemas, connectionsPerProject, connections);
  return {
    handle: async (request) => {
      let answer: Answer;
      try {
        answer = await answerTo(request, databases.of(request.tenant), schemas);
      } catch (error) {
        answer = errorAnswer(toRestError(error, request.caller.role === 'anon'), request);
      }
      write(request, answer);
    },
    forget: (ref) => databases.forget(ref),
    close: () => databases.close(),
  };
}

async function answerTo(
  request: ServiceRequest,
  database: TenantDatabase,
  schemas: readonly string[],
): Promise<Answer> {
  const { incoming } = request;
  const outline = outlineOf(incoming.method ?? 'GET', request.path, incoming.headers, schemas);
  if (outline.action === 'info') return informed(await database.current(), outline);
  if (outline.action === 'describe') return described(await database.current(), outline, request);
  const parameters = splitQuery(request.query);
  const body = hasBody(outline) ? parseBody(await readBody(incoming), incoming.headers['content-type']) : undefined;
  const isRead = outline.action === 'read' || outline.action === 'call';
  const range = isRead
    ? rowRange(parameters, outline.method === 'POST' ? undefined : incoming.headers.range)
    : NO_RANGE;
  return execute({ request, database, outline, parameters, body, range });
}

const NO_RANGE: RowRange = { limit: undefined, offset: 0 };

const hasBody = ({ action, method }: Outline) =>
  action === 'insert' || action === 'update' || action === 'put' || (action === 'call' && method === 'POST');

/** Of these one reads the catalogue; others may find that somebody has just begun to. */
const ATTEMPTS = 3;

/** Names that nothing is known of are answered only after the catalogue has been read anew. */
async function execute(exchange: Exchange): Promise<Answer> {
  for (let attempt = 1, last = false; ; attempt++) {
    const catalogue = await exchange.database.current();
    try {
      return await executeWith(catalogue, exchange);
    } catch (error) {
      if (last || attempt === ATTEMPTS || !mayBeStale(error)) throw error;
      const outcome = await exchange.database.revalidate(catalogue);
      if (outcome === 'refused') throw error;
      last = outcome === 'read';
    }
  }
}

const mayBeStale = (error: unknown) =>
  error instanceof RestError
    ? error.code.startsWith('PGRST2')
    : error instanceof DatabaseError && error.code === '42P01' && !error.fields.where;

async function executeWith(catalogue: Catalogue, exchange: Exchange): Promise<Answer> {
  const prepared = prepare(catalogue, exchange);
  const { compiled } = prepared;
  const results = await exchange.database.pool
    .batch(statementsOf(prepared, exchange), { repeatable: compiled.readOnly })
    .catch((error) => {
      throw boundError(error, compiled);
    });
  const row = results.at(-1)?.rows[0] ?? [];
  return answerOf(compiled, resultOf(row), exchange.range, plannedRows(compiled, results), exchange.request.query);
}

function prepare(catalogue: Catalogue, { database, outline, parameters, body, range }: Exchange): PreparedRequest {
  const shape = shapeOf(outline, parameters, body, range);
  const remembered = database.remembered(shape);
  if (remembered) return remembered;
  return database.remember(shape, compile(catalogue, apiRequest(outline, parameters, body, range)));
}

function statementsOf({ compiled, name }: PreparedRequest, exchange: Exchange): Statement[] {
  const { caller, incoming, path } = exchange.request;
  const identity = identityStatement(incoming, caller, {
    schema: exchange.outline.schema,
    path,
    readOnly: compiled.readOnly,
  });
  const values = ({ sources }: CompiledStatement) => sources.map((source) => boundValue(source, exchange));
  const main = {
    text: compiled.statement.text,
    values: values(compiled.statement),
    ...(compiled.reusable ? { name: `${name}-${caller.role}` } : {}),
  };
  return compiled.explain
    ? [identity, { text: compiled.explain.text, values: values(compiled.explain) }, main]
    : [identity, main];
}

function boundValue(source: Source, { parameters, body, range }: Exchange): string | Buffer | null {
  switch (source.from) {
    case 'constant':
      return source.text;
    case 'query': {
      const text = parameters[source.slot.parameter]?.[1].slice(source.slot.start) ?? '';
      return source.pattern ? likePattern(text) : text;
    }
    case 'body':
      return body && body.form !== 'empty' ? body.bytes : '{}';
    case 'offset':
      return String(range.offset);
  }
}

function plannedRows({ explain }: CompiledRequest, results: Result[]): number | undefined {
  if (!explain) return undefined;
  const [plan] = JSON.parse(results[1]?.rows.map(([line]) => line?.toString()).join('\n') ?? '[]') as {
    Plan: { 'Plan Rows': number };
  }[];
  return plan?.Plan['Plan Rows'];
}

function boundError(error: unknown, { request }: CompiledRequest): unknown {
  const rows =
    error instanceof DatabaseError && error.code === '22P02' ? BOUND_ERROR.exec(error.message)?.[1] : undefined;
  if (rows === undefined) return error;
  return request.representation.media === 'object' ? singularity(rows) : maxAffectedExceeded(rows);
}

function informed(catalogue: Catalogue, { target, schema }: Outline): Answer {
  const allow = allowed(catalogue, target, schema);
  return {
    status: 200,
    headers: { Allow: allow, 'Access-Control-Allow-Origin': '*', 'Content-Length': '0' },
    body: undefined,
  };
}

function allowed(catalogue: Catalogue, target: Outline['target'], schema: string): string {
  if (target.kind === 'root') return 'OPTIONS,GET,HEAD';
  if (target.kind === 'function') {
    const volatile = catalogue.overloads(schema, target.name).every(({ volatility }) => volatility === 'v');
    return volatile ? 'OPTIONS,POST' : 'OPTIONS,GET,HEAD,POST';
  }
  const table = catalogue.table(schema, target.name);
  if (!table)
    throw new RestError(404, 'PGRST205', `Could not find the table '${schema}.${target.name}' in the schema cache`);
  const { insertable, updatable, deletable, primaryKey } = table;
  return [
    'OPTIONS,GET,HEAD',
    ...(insertable ? ['POST'] : []),
    ...(insertable && updatable && primaryKey.length > 0 ? ['PUT'] : []),
    ...(updatable ? ['PATCH'] : []),
    ...(deletable ? ['DELETE'] : []),
  ].join(',');
}

function described(catalogue: Catalogue, outline: Outline, { tenant }: ServiceRequest): Answer {
  const asked = negotiate(outline.accept, true);
  const representation = asked.media === 'array' ? ({ media: 'openapi', stripNulls: false } as const) : asked;
  const body = Buffer.from(describe(catalogue, outline.schema, `${tenant.url}/rest/v1/`));
  return {
    status: 200,
    headers: { 'Content-Type': contentType(representation) },
    body: outline.headOnly ? undefined : body,
  };
}

function errorAnswer(error: RestError, { incoming }: ServiceRequest): Answer {
  return {
    status: error.status,
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'Proxy-Status': `PostgREST; error=${error.code}`,
      ...error.headers,
    },
    body: incoming.method === 'HEAD' ? undefined : Buffer.from(error.body),
  };
}

function write({ incoming, outgoing }: ServiceRequest, { status, headers, body }: Answer): void {
  if (status === 204 || status === 304) body = undefined;
  if (body) headers['Content-Length'] = String(body.length);
  else if (status !== 204 && incoming.method !== 'HEAD') headers['Content-Length'] = '0';
  outgoing.writeHead(status, headers);
  outgoing.end(body);
}
