/** Compiles the statement that returns rows of a table or of a function's result, for reads and calls. */
import type { CallPlan } from './plan/call-plan.js';
import type { ReadNode } from './plan/read-plan.js';
import type { ApiRequest, RepresentedRequest } from './request/api-request.js';
import { countSql, readSql } from './statement/read.js';
import { resultSql } from './statement/result.js';
import { type Source, Writer } from './statement/writer.js';

export interface CompiledStatement {
  text: string;
  sources: Source[];
}

/** Number of rows up to which an estimated count is exact. */
export const ESTIMATE_FROM = 1000;

interface RowSource {
  /** Table, or the name of the result of `before`. */
  source: string;
  before: ((writer: Writer) => string)[];
}

/** `call` is the function that returned the rows. */
export function readStatements(
  request: RepresentedRequest,
  node: ReadNode,
  { source, before }: RowSource,
  call?: { plan: CallPlan; bound: { rows: number; exactly: boolean } | undefined },
) {
  const writer = new Writer();
  const alias = writer.alias(node.name);
  const withs = before.map((write) => `pgrst_source as (${write(writer)})`);
  const rows = readSql(writer, node, { source, alias }, rangeSql(writer, request));
  const { count } = request.preferences;
  const limited = count === 'estimated' ? ` limit ${ESTIMATE_FROM + 1}` : '';
  const wantsCount = count === 'exact' || count === 'estimated' || (count === 'planned' && call !== undefined);
  const total = wantsCount ? `(${countSql(writer, node, { source, alias }, call ? '' : limited)})` : undefined;
  const text = resultSql({
    with: withs,
    rows,
    representation: request.representation,
    routine: call?.plan.routine,
    table: node.table,
    wantsBody: !request.headOnly,
    ...(total === undefined ? {} : { total }),
    ...(call?.bound ? { bound: call.bound } : {}),
  });
  const plans = !call && (count === 'planned' || count === 'estimated');
  return { statement: { text, sources: writer.sources }, explain: plans ? explainStatement(node, source) : undefined };
}

function explainStatement(node: ReadNode, source: string): CompiledStatement {
  const writer = new Writer();
  const counted = countSql(writer, node, { source, alias: writer.alias(node.name) });
  // The estimate is in the plan of the rows, not in the plan of the one row that counts them.
  const rows = counted.replace(/^select count\(\*\)/, 'select 1');
  return { text: `explain (format json) ${rows}`, sources: writer.sources };
}

function rangeSql(writer: Writer, { limit, hasOffset }: ApiRequest): string {
  const limited = limit === undefined ? '' : ` limit ${limit}`;
  return `${limited}${hasOffset ? ` offset ${writer.add({ from: 'offset' })}::bigint` : ''}`;
}
