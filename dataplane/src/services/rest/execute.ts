/**
 * Runs one request on a project's database: compiled once for its shape, sent with the caller's identity in one round
 * trip. In: the parsed request. Out: the response, or an error.
 */
import { parseJson } from '@slipway/program';
import { inTurns } from '../../bounds/turns.js';
import type { Result, Statement } from '../../sql/pool.js';
import { DatabaseError } from '../../sql/pool.js';
import type { ServiceRequest } from '../service.js';
import type { Catalogue } from './catalogue/catalogue.js';
import { type CompiledRequest, compile } from './compile.js';
import type { CompiledStatement } from './compile-read.js';
import { maxAffectedExceeded, singularity } from './errors.js';
import { fullDatabaseError } from './full-database.js';
import { identityStatement } from './identity.js';
import { apiRequest, type Outline } from './request/api-request.js';
import type { Body } from './request/body.js';
import type { Parameters } from './request/query-string.js';
import type { RowRange } from './request/range.js';
import { shapeOf } from './request/shape.js';
import { type Answer, answerOf, bytesOf, planAnswer, resultOf } from './response.js';
import { BOUND_ERROR, RESULT_COLUMNS } from './statement/result.js';
import { likePattern, qualified, type Source } from './statement/writer.js';
import type { PreparedRequest, TenantDatabase } from './tenant-database.js';

export interface RestContext {
  request: ServiceRequest;
  database: TenantDatabase;
  outline: Outline;
  parameters: Parameters;
  body: Body | undefined;
  range: RowRange;
}

export async function execute(catalogue: Catalogue, context: RestContext): Promise<Answer> {
  const timezones = context.outline.prefer.includes('timezone') ? await context.database.timezones() : undefined;
  const prepared = prepare(catalogue, context, timezones);
  const { compiled } = prepared;
  const statements = statementsOf(catalogue, prepared, context);
  const run = endsInRollback(catalogue, compiled) ? runAndRollBack : runAndCommit;
  const results = await run(context.database, statements, compiled).catch(async (error) => {
    throw (await fullDatabaseError(error, context.database, compiled)) ?? boundError(error, compiled);
  });
  const rows = results.at(-1)?.rows ?? [];
  const { tenant, query } = context.request;
  const { plan, custom } = compiled.request.representation;
  if (plan) return inTurns(tenant.ref, planAnswer(compiled, rows));
  const planned = plannedRows(compiled, results);
  const answer = answerOf(compiled, resultOf(rows[0] ?? []), { range: context.range, planned, query });
  if (!custom?.isBytes || !answer.body) return answer;
  return { ...answer, body: await inTurns(tenant.ref, bytesOf(answer.body)) };
}

function prepare(
  catalogue: Catalogue,
  { database, outline, parameters, body, range }: RestContext,
  timezones: ReadonlySet<string> | undefined,
): PreparedRequest {
  const shape = shapeOf(outline, parameters, body, range);
  const remembered = database.remembered(shape);
  if (remembered) return remembered;
  const request = apiRequest(outline, { parameters, body, range }, catalogue.settings, timezones);
  return database.remember(shape, compile(catalogue, request));
}

const runAndCommit = ({ pool }: TenantDatabase, statements: Statement[], { readOnly }: CompiledRequest) =>
  pool.batch(statements, { repeatable: readOnly });

function endsInRollback({ settings }: Catalogue, { request }: CompiledRequest): boolean {
  const { tx } = request.preferences;
  return tx === undefined ? settings.transactionEnd.startsWith('rollback') : tx === 'rollback';
}

/** Thrown to end a transaction without an error for the client. */
class RolledBack extends Error {
  constructor(readonly results: Result[]) {
    super('rolled back on request');
  }
}

/** Runs a request with `Prefer: tx=rollback`. Slower, because its transaction takes further round trips. */
async function runAndRollBack({ pool }: TenantDatabase, statements: Statement[], compiled: CompiledRequest) {
  const isPlan = compiled.request.representation.plan !== undefined;
  try {
    return await pool.transaction<Result[]>(async (transaction) => {
      const results: Result[] = [];
      for (const { text, values = [] } of statements) {
        const rows = await transaction.query(text, values);
        results.push({ command: '', fields: [], rows: rows.map((row) => cells(row, isPlan)) });
      }
      throw new RolledBack(results);
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.results;
    throw error;
  }
}

function cells(row: Record<string, unknown>, isPlan: boolean): (Buffer | null)[] {
  const names = isPlan || !Object.hasOwn(row, RESULT_COLUMNS[0]) ? Object.keys(row) : RESULT_COLUMNS;
  return names.map((name) => {
    const value = row[name] ?? null;
    if (value === null) return null;
    return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  });
}

function statementsOf(catalogue: Catalogue, { compiled, name }: PreparedRequest, context: RestContext): Statement[] {
  const { caller, incoming, path } = context.request;
  const { request, call, readOnly } = compiled;
  const identity = identityStatement(incoming, caller, {
    searchPath: catalogue.searchPath(context.outline.schema),
    path,
    readOnly,
    timeoutMs: call?.routine.timeoutMs,
    timezone: request.preferences.timezone,
  });
  const values = ({ sources }: CompiledStatement) => sources.map((source) => boundValue(source, context));
  const main = {
    text: compiled.statement.text,
    values: values(compiled.statement),
    ...(compiled.reusable ? { name: `${name}-${caller.role}` } : {}),
  };
  const { preRequest } = catalogue.settings;
  const before = preRequest ? [identity, { text: `select ${qualified(preRequest)}()` }] : [identity];
  return compiled.explain
    ? [...before, { text: compiled.explain.text, values: values(compiled.explain) }, main]
    : [...before, main];
}

function boundValue(source: Source, { parameters, body, range }: RestContext): string | Buffer | null {
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
  const text = results.at(-2)?.rows[0]?.[0] ?? '[]';
  try {
    const [plan] = parseJson(text) as { Plan: { 'Plan Rows': number } }[];
    return plan?.Plan['Plan Rows'];
  } catch {
    // The plan of an owner's view may have any size: if it exceeds the limit, rows are not counted.
    return undefined;
  }
}

function boundError(error: unknown, { request }: CompiledRequest): unknown {
  const rows =
    error instanceof DatabaseError && error.code === '22P02' ? BOUND_ERROR.exec(error.message)?.[1] : undefined;
  if (rows === undefined) return error;
  return request.representation.media === 'object' ? singularity(rows) : maxAffectedExceeded(rows);
}
