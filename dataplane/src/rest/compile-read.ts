/**
 * The statement that answers with rows: those of a table, or of what a function gave. Called by compile for reads and
 * calls.
 */
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

/** An estimated count is exact up to here. */
export const ESTIMATE_FROM = 1000;

/** `before`: statements whose result `source` names. */
export function readStatements(
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
  const rows = readSql(writer, node, source, alias, rangeSql(writer, request));
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
