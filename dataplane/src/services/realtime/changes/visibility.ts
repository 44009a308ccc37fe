/**
 * Decides who may read a changed row: queries it by primary key as each identity, under row-level security. In: rows of
 * one table, and identities. Out: the visible rows of each. One round trip checks many identities.
 */

import type { Caller } from '../../../projects/tenant.js';
import type { Statement } from '../../../sql/pool.js';
import { DatabaseError, type Pool, type Result } from '../../../sql/pool.js';
import { assume } from '../identity.js';
import type { Table } from './tables.js';

export interface Question {
  identity: Caller;
  table: Table;
  /** Primary keys as Postgres' text, in the order of the table's primaryKey. */
  keys: readonly (readonly (string | null)[])[];
}

/** Indexes of the keys whose row is visible; `failed`: a policy could not be evaluated. */
export type Seen = ReadonlySet<number> | 'failed';

const QUESTIONS_AT_ONCE = 40;

/**
 * Query that decides which rows are visible. The log has only 32 bits of a transaction's id; the higher bits are chosen
 * so that the id is nearest to the present one.
 */
const ARE_VISIBLE = `
with present as (select snapshot, pg_snapshot_xmax(snapshot)::text::bigint as next from pg_current_snapshot() snapshot)
select coalesce(bool_and(pg_visible_in_snapshot(
  (next - 2147483648 + ((xid - next + 2147483648) % 4294967296 + 4294967296) % 4294967296)::text::xid8, snapshot
)), true)::text from present, unnest($1::bigint[]) xid`;

/**
 * True if other sessions see these transactions. The log may be read a moment before a commit becomes visible, and its
 * rows would seem invisible then.
 */
export async function areVisible(pool: Pool, xids: Iterable<number>): Promise<boolean> {
  const statement = { name: 'realtime-visible', text: ARE_VISIBLE, values: [`{${[...xids].join()}}`] };
  const [answer] = await pool.batch([statement], { repeatable: true });
  return answer?.rows[0]?.[0]?.toString() === 'true';
}

export async function seenBy(pool: Pool, questions: readonly Question[]): Promise<Seen[]> {
  const groups: Question[][] = [];
  for (let at = 0; at < questions.length; at += QUESTIONS_AT_ONCE)
    groups.push(questions.slice(at, at + QUESTIONS_AT_ONCE));
  return (await Promise.all(groups.map((group) => ask(pool, group)))).flat();
}

async function ask(pool: Pool, questions: Question[]): Promise<Seen[]> {
  const statements = questions.flatMap((question) => [assume(question.identity), rowsOf(question)]);
  try {
    const answers = await pool.batch(statements, { repeatable: true });
    return questions.map((_, at) => places(answers[at * 2 + 1]));
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    // One identity's policy failed: check the others without it.
    if (questions.length === 1) return ['failed'];
    return (await Promise.all(questions.map((question) => ask(pool, [question])))).flat();
  }
}

const places = (answer: Result | undefined): Seen => new Set(answer?.rows.map((row) => Number(row[0]) - 1));

const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

function rowsOf({ table, keys }: Question): Statement {
  const { primaryKey } = table;
  const columns = primaryKey.map(({ sqlType }, at) => `$${at + 1}::${sqlType}[]`).join(', ');
  const names = primaryKey.map((_, at) => `k${at}`).join(', ');
  const same = primaryKey.map(({ name }, at) => `t.${identifier(name)} = k.k${at}`).join(' and ');
  const text =
    `select k.place::text from unnest(${columns}) with ordinality as k(${names}, place) ` +
    `where exists (select from ${identifier(table.schema)}.${identifier(table.name)} t where ${same})`;
  const values = primaryKey.map((_, column) => arrayLiteral(keys.map((key) => key[column] ?? null)));
  return { text, values };
}

const arrayLiteral = (values: (string | null)[]) =>
  `{${values.map((value) => (value === null ? 'NULL' : `"${value.replace(/["\\]/g, '\\$&')}"`)).join()}}`;
