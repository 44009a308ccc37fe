/**
 * Parses a query string. In: its decoded parameters. Out: QueryString, or PGRST100. A function's arguments are the
 * parameters whose values have no operator.
 */
import { parseError } from '../errors.js';
import { parseOperation, parseTree } from './filter.js';
import { COMPARISONS, type OrderTerm, type QueryString, TEXT_SEARCHES } from './grammar.js';
import { Scanner } from './scanner.js';
import { parseSelect } from './select.js';

export type Parameters = readonly (readonly [name: string, value: string])[];

/** Rejects `%` sequences that are not UTF-8, because no column can have such a name. */
export function splitQuery(query: string): Parameters {
  if (query === '') return [];
  return query
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const equals = part.indexOf('=');
      return equals < 0 ? [decode(part), ''] : [decode(part.slice(0, equals)), decode(part.slice(equals + 1))];
    });
}

function decode(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw parseError('query string', text, 1, 'unexpected "%" expecting percent-encoded UTF-8');
  }
}

/** True for the range of the resource itself, which is read for each request, because it varies within a shape. */
export const isRange = (name: string) => name === 'limit' || name === 'offset';

export function parseQueryString(parameters: Parameters, isCall: boolean): QueryString {
  const result: QueryString = {
    select: [],
    conditions: [],
    order: [],
    limits: [],
    columns: undefined,
    onConflict: undefined,
    parameters: [],
  };
  let select = '*';
  parameters.forEach(([name, value], parameter) => {
    const last = name.slice(name.lastIndexOf('.') + 1);
    if (isRange(name)) return;
    if (name === 'select') select = value;
    else if (name === 'columns') result.columns = nameList(value, 'columns parameter');
    else if (name === 'on_conflict') result.onConflict = nameList(value, 'on_conflict parameter');
    else if (last === 'order') result.order.push({ path: treePath(name).slice(0, -1), value: parseOrder(value) });
    else if (last === 'limit' || last === 'offset') addLimit(result.limits, treePath(name).slice(0, -1), last, value);
    else if (last === 'and' || last === 'or') {
      const path = treePath(name).slice(0, -1);
      result.conditions.push({
        path: path.filter((step) => step !== 'not'),
        value: parseTree(last, path.includes('not'), value),
      });
    } else if (isCall && !isFilter(name, value))
      result.parameters.push({ name, value: { text: value, slot: { parameter, start: 0 } } });
    else addFilter(result, name, value, parameter);
  });
  result.select = parseSelect(select === '' ? '*' : select);
  return result;
}

export function isFilter(name: string, value: string): boolean {
  if (name.includes('.')) return true;
  const word = /^[a-z]+/.exec(value)?.[0] ?? '';
  const after = value[word.length];
  if (word === 'not' || word === 'is' || word === 'in') return after === '.';
  if (Object.hasOwn(TEXT_SEARCHES, word)) return after === '.' || after === '(';
  return Object.hasOwn(COMPARISONS, word) && (after === '.' || after === '(');
}

function addFilter(result: QueryString, name: string, value: string, parameter: number): void {
  const scanner = new Scanner(name, 'tree path');
  const path = [scanner.name()];
  while (scanner.take('.')) path.push(scanner.name());
  const field = { name: path.pop() as string, path: scanner.jsonPath() };
  if (!scanner.ended) scanner.fail('letter, digit, "-", "->>", "->", "." or end of input');
  result.conditions.push({ path, value: { kind: 'filter', field, ...parseOperation(value, parameter) } });
}

function treePath(name: string): string[] {
  const scanner = new Scanner(name, 'tree path');
  const path = [scanner.name()];
  while (scanner.take('.')) path.push(scanner.name());
  if (!scanner.ended) scanner.fail('"." or end of input');
  return path;
}

function addLimit(limits: QueryString['limits'], path: string[], which: 'limit' | 'offset', text: string): void {
  const number = wholeNumber(text);
  if (number === undefined || number < 0) return;
  const key = path.join('.');
  let entry = limits.find((each) => each.path.join('.') === key);
  if (!entry) limits.push((entry = { path, value: { limit: undefined, offset: 0 } }));
  entry.value[which] = number;
}

export function wholeNumber(text: string): number | undefined {
  const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isNaN(number) ? undefined : number;
}

function nameList(text: string, what: string): string[] {
  const scanner = new Scanner(text, what);
  const names = scanner.list(() => scanner.name());
  if (!scanner.ended) scanner.fail('"," or end of input');
  return [...new Set(names)];
}

const TERM_END = 'delimiter (.), "," or end of input';

function parseOrder(text: string): OrderTerm[] {
  const scanner = new Scanner(text, 'order');
  const terms = scanner.list(() => orderTerm(scanner));
  if (!scanner.ended) scanner.fail(TERM_END);
  return terms;
}

function orderTerm(scanner: Scanner): OrderTerm {
  let field = scanner.field();
  let relation: string | undefined;
  if (field.path.length === 0 && scanner.take('(')) {
    relation = field.name;
    field = scanner.field();
    scanner.expect(')');
  }
  const direction = scanner.take('.asc') ? 'asc' : scanner.take('.desc') ? 'desc' : undefined;
  const nulls = scanner.take('.nullsfirst') ? 'first' : scanner.take('.nullslast') ? 'last' : undefined;
  if (scanner.sees('.')) {
    scanner.at++;
    scanner.fail(direction ? '"nullsfirst" or "nullslast"' : '"asc", "desc", "nullsfirst" or "nullslast"');
  }
  scanner.space();
  if (!scanner.ended && !scanner.sees(',')) scanner.fail(TERM_END);
  return { relation, field, direction, nulls };
}
