/**
 * Filters of Postgres changes: `column=operator.value`, several with commas. In: their text. Out: conditions, and
 * whether a row matches. Comparisons with the same result in JavaScript run here; all others run in Postgres, with
 * values as parameters.
 */

import type { Caller } from '../../../projects/tenant.js';
import { DatabaseError, type Pool } from '../../../sql/pool.js';
import { assume } from '../identity.js';
import type { Values } from './payload.js';
import { VALUE_FORMATS } from './replication-session.js';
import type { Column, Table } from './tables.js';

const OPERATORS = {
  eq: '=',
  neq: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  in: '=',
  like: '~~',
  ilike: '~~*',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
  is: 'is',
} as const;
type Operator = keyof typeof OPERATORS;

export interface Condition {
  column: string;
  operator: Operator;
  isNegated: boolean;
  /** The value, or the values of `in`. */
  values: readonly string[];
}

export const MAX_CONDITIONS = 20;
const MAX_IN_VALUES = 100;
const MAX_VALUE_LENGTH = 1_000;
const TESTS = ['null', 'true', 'false', 'unknown'];

/** Parses a filter. Returns a string for an invalid one: the reason. */
export function readFilter(text: string): Condition[] | string {
  const parts = split(text);
  if (parts.length > MAX_CONDITIONS) return `a filter has at most ${MAX_CONDITIONS} conditions`;
  const conditions: Condition[] = [];
  for (const part of parts) {
    const match = /^([^=]+)=(not\.)?([a-z]+)\.(.*)$/s.exec(part);
    if (!match || !Object.hasOwn(OPERATORS, match[3] as string)) return `${part} is not like column=eq.value`;
    const [, column = '', not, operator, value = ''] = match;
    const values = operator === 'in' ? listOf(value) : [unquoted(value)];
    if (values === undefined) return `${part}: the values of in must be in brackets, (1,2)`;
    if (values.length > MAX_IN_VALUES) return `in takes at most ${MAX_IN_VALUES} values`;
    if (values.some((one) => one.length > MAX_VALUE_LENGTH || one.includes('\0')))
      return `${column}: the value is too long`;
    if (operator === 'is' && !TESTS.includes(values[0] as string)) return `${part}: is takes ${TESTS.join(', ')}`;
    conditions.push({ column: column.trim(), operator: operator as Operator, isNegated: not !== undefined, values });
  }
  return conditions;
}

/** Splits at commas that are neither quoted nor in brackets. */
function split(text: string): string[] {
  const parts: string[] = [];
  let begin = 0;
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (isQuoted && letter === '\\') at++;
    else if (letter === '"' && (isQuoted || '=.(,'.includes(text[at - 1] ?? ''))) isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (letter === '(') depth++;
    else if (letter === ')') depth--;
    else if (letter === ',' && depth === 0) {
      parts.push(text.slice(begin, at));
      begin = at + 1;
    }
  }
  return [...parts, text.slice(begin)];
}

function listOf(value: string): string[] | undefined {
  if (!value.startsWith('(') || !value.endsWith(')')) return undefined;
  return split(`=${value.slice(1, -1)}`.slice(1)).map((item) => unquoted(item.trim()));
}

const unquoted = (value: string) => (/^".*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, '$1') : value);

/** Types whose values are equal if and only if their texts are. */
const EXACT = new Set([
  ...['bool', 'int2', 'int4', 'int8', 'oid', 'uuid', 'text', 'varchar', 'name', 'bytea'],
  ...['date', 'time', 'timestamp', 'timestamptz', 'enum'],
]);
const INTEGERS = new Set(['int2', 'int4', 'int8', 'oid']);
const DATES = new Set(['date', 'timestamp', 'timestamptz']);

/**
 * Returns conditions with their values as Postgres writes them. Returns a string if the role or the table does not
 * allow one: the reason.
 */
export async function checkedAgainst(
  pool: Pool,
  caller: Caller,
  table: Table,
  conditions: readonly Condition[],
): Promise<Condition[] | string> {
  const checked: Condition[] = [];
  for (const condition of conditions) {
    const column = table.columns.get(condition.column);
    if (column === undefined || !column.readers.has(caller.role))
      return `invalid column for filter ${condition.column}`;
    if (TAKES_TEXT.has(condition.operator)) {
      checked.push(condition);
      continue;
    }
    try {
      // A cast to text would write true for t.
      const texts = condition.values.map((_, at) => `format('%s', $${at + 1}::${column.sqlType})`);
      const text = `select ${texts.join(', ')}`;
      const [, , answer] = await pool.batch([assume(NOBODY), AS_IN_CHANGES, { text, values: condition.values }]);
      checked.push({ ...condition, values: (answer?.rows[0] ?? []).map((value) => String(value)) });
    } catch (error) {
      if (error instanceof DatabaseError) return error.message;
      throw error;
    }
  }
  return checked;
}

const TAKES_TEXT = new Set<Operator>(['is', 'like', 'ilike', 'match', 'imatch']);
/** Makes Postgres write values as in changes. */
const AS_IN_CHANGES = {
  name: 'realtime-value-formats',
  text: `select ${Object.entries(VALUE_FORMATS)
    .map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`)
    .join(', ')}`,
};
/** Caller as whom comparisons run in Postgres. The role has no rights. */
const NOBODY: Caller = { role: 'anon', claims: '{}' };

/** Evaluates conditions in Postgres, with a cache for one delivery. */
export interface Asking {
  pool: Pool;
  answers: Map<string, Promise<boolean | undefined>>;
}

export async function meets(
  asking: Asking,
  conditions: readonly Condition[],
  values: Values,
  columns: ReadonlyMap<string, Column>,
): Promise<boolean> {
  for (const condition of conditions) {
    const column = columns.get(condition.column);
    const value = values.get(condition.column);
    if (column === undefined || value === undefined) return false;
    const known = compare(condition, value, column);
    const isMet = known === 'ask' ? await ask(asking, condition, value as string, column) : known;
    if (isMet === undefined || isMet === condition.isNegated) return false;
  }
  return true;
}

/** Returns undefined if the result is unknown, as for null in SQL. */
function compare({ operator, values }: Condition, value: string | null, column: Column): boolean | undefined | 'ask' {
  const [wanted = ''] = values;
  if (operator === 'is') return isTest(wanted, value);
  if (value === null) return operator === 'isdistinct' ? true : undefined;
  const scalar = column.shape.delimiters === '' ? column.shape.baseType : '';
  const isExact = EXACT.has(scalar);
  if (operator === 'eq' && isExact) return value === wanted;
  if ((operator === 'neq' || operator === 'isdistinct') && isExact) return value !== wanted;
  if (operator === 'in' && isExact) return values.includes(value);
  // Only for these operators does the value have the column's type.
  const isMet = ORDERS.get(operator);
  const order = isMet && orderOf(value, wanted, scalar);
  return isMet === undefined || order === undefined ? 'ask' : isMet(order);
}

const ORDERS = new Map<Operator, (order: number) => boolean>([
  ['lt', (order) => order < 0],
  ['lte', (order) => order <= 0],
  ['gt', (order) => order > 0],
  ['gte', (order) => order >= 0],
]);

function isTest(test: string, value: string | null): boolean {
  if (test === 'null' || test === 'unknown') return value === null;
  return value === (test === 'true' ? 't' : 'f');
}

function orderOf(one: string, other: string, baseType: string): number | undefined {
  if (INTEGERS.has(baseType)) {
    const difference = BigInt(one) - BigInt(other);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }
  const isPlainDate = (text: string) => /^\d{4}-/.test(text) && !text.endsWith('BC');
  if (DATES.has(baseType) && isPlainDate(one) && isPlainDate(other)) return one < other ? -1 : one > other ? 1 : 0;
  return undefined;
}

function ask(
  { pool, answers }: Asking,
  condition: Condition,
  value: string,
  column: Column,
): Promise<boolean | undefined> {
  const { operator, values } = condition;
  const right = TAKES_TEXT.has(operator) ? 'text' : column.sqlType;
  const each = values.map((_, at) => `($1::${column.sqlType} ${OPERATORS[operator]} $${at + 2}::${right})`);
  const text = `select (${each.join(' or ')})::text`;
  const key = JSON.stringify([text, value, values]);
  let answer = answers.get(key);
  if (answer === undefined) {
    answer = pool.batch([assume(NOBODY), { text, values: [value, ...values] }], { repeatable: true }).then(
      ([, result]) => {
        const truth = result?.rows[0]?.[0]?.toString();
        return truth === undefined ? undefined : truth === 'true';
      },
      (error) => {
        if (error instanceof DatabaseError) return undefined;
        throw error;
      },
    );
    answers.set(key, answer);
  }
  return answer;
}
