/** The grammar of filters: `col=not.op.value`, and the trees of `and=(…)` and `or=(…)`. */
import {
  COMPARISONS,
  type Comparison,
  type Condition,
  type Filter,
  type Operation,
  QUANTIFIABLE,
  TEXT_SEARCHES,
  type TextSearch,
  type Value,
} from './grammar.js';
import { Scanner } from './scanner.js';

const OPERATOR = /[a-z]+/y;
const LANGUAGE = /\(([\p{L}\p{N}_ $]+)\)/uy;
const LIST_ITEM = /[^,)]*/y;
const ARRAY = /\{[^{}]*\}/y;
const IS = /null|not_null|true|false|unknown/iy;
const EXPECTED_OPERATOR = '"not" or operator (eq, gt, ...)';

type ReadValue = (scanner: Scanner) => Value;

/** Operator and value of one filter, which is the `parameter`th of the query string. */
export function parseOperation(text: string, parameter: number): Pick<Filter, 'negated' | 'operation'> {
  const scanner = new Scanner(text, 'filter');
  const wholeRest: ReadValue = (from) => {
    const value = { text: from.rest, slot: { parameter, start: from.at } };
    from.at = from.text.length;
    return value;
  };
  const parsed = readOperation(scanner, wholeRest);
  if (!scanner.ended) scanner.fail('end of input');
  return parsed;
}

/** Parses a tree. `text` follows the operator in the key: `(a.eq.1,b.eq.2)`. */
export function parseTree(operator: 'and' | 'or', negated: boolean, text: string): Condition {
  const scanner = new Scanner(text, 'logic tree');
  const members = treeMembers(scanner);
  if (!scanner.ended) scanner.fail('end of input');
  return { kind: 'tree', negated, operator, members };
}

function treeMembers(scanner: Scanner): Condition[] {
  scanner.space();
  scanner.expect('(');
  const members = scanner.nested(() =>
    scanner.list(() => {
      scanner.space();
      return treeMember(scanner);
    }),
  );
  scanner.expect(')');
  scanner.space();
  return members;
}

function treeMember(scanner: Scanner): Condition {
  const tree = scanner.attempt(() => {
    const negated = scanner.take('not.');
    const operator = scanner.take('and') ? 'and' : scanner.take('or') ? 'or' : undefined;
    return operator && /^\s*\(/.test(scanner.rest) ? ({ negated, operator } as const) : undefined;
  });
  if (tree) return { kind: 'tree', ...tree, members: treeMembers(scanner) };
  const field = scanner.field();
  scanner.expect('.');
  return { kind: 'filter', field, ...readOperation(scanner, treeValue) };
}

function treeValue(scanner: Scanner): Value {
  const quoted = scanner.attempt(() => quotedElement(scanner));
  return { text: quoted ?? scanner.match(ARRAY) ?? scanner.match(LIST_ITEM) ?? '', slot: undefined };
}

function quotedElement(scanner: Scanner): string | undefined {
  if (!scanner.sees('"')) return undefined;
  const end = /"(?:[^"\\]|\\.)*"(?=[,)]|$)/suy;
  end.lastIndex = scanner.at;
  return end.test(scanner.text) ? scanner.quoted() : undefined;
}

function readOperation(scanner: Scanner, readValue: ReadValue): Pick<Filter, 'negated' | 'operation'> {
  const negated = scanner.take('not.');
  const begin = scanner.at;
  const word = scanner.match(OPERATOR);
  const operation = word === undefined ? undefined : operationOf(word, scanner, readValue);
  if (operation) return { negated, operation };
  scanner.at = begin;
  return scanner.fail(EXPECTED_OPERATOR);
}

function operationOf(word: string, scanner: Scanner, readValue: ReadValue): Operation | undefined {
  if (word === 'in' && scanner.take('.')) return { kind: 'in', values: listOf(scanner) };
  if (word === 'is' && scanner.take('.')) return { kind: 'is', value: trilean(scanner) };
  if (Object.hasOwn(TEXT_SEARCHES, word)) {
    const language = scanner.match(LANGUAGE)?.slice(1, -1);
    return scanner.take('.')
      ? { kind: 'search', operator: word as TextSearch, language, value: readValue(scanner) }
      : undefined;
  }
  if (!Object.hasOwn(COMPARISONS, word)) return undefined;
  const quantifier = !QUANTIFIABLE.has(word)
    ? undefined
    : scanner.take('(any)')
      ? 'any'
      : scanner.take('(all)')
        ? 'all'
        : undefined;
  return scanner.take('.')
    ? { kind: 'compare', operator: word as Comparison, quantifier, value: readValue(scanner) }
    : undefined;
}

function trilean(scanner: Scanner) {
  const word = scanner.match(IS)?.toLowerCase() ?? scanner.fail('null or trilean value (unknown, true, false)');
  return word as Extract<Operation, { kind: 'is' }>['value'];
}

function listOf(scanner: Scanner): string[] {
  scanner.space();
  scanner.expect('(');
  const values = [listElement(scanner)];
  while (scanner.take(',')) values.push(listElement(scanner));
  scanner.expect(')');
  scanner.space();
  // `in.()` is the empty list.
  return values.length === 1 && values[0] === '' ? [] : values;
}

const listElement = (scanner: Scanner) =>
  scanner.attempt(() => quotedElement(scanner)) ?? scanner.match(LIST_ITEM) ?? '';
