/** Writes columns, JSON paths, filters and their trees as SQL. */

import { embedOfCondition, type ReadNode } from '../plan/read-plan.js';
import {
  COMPARISONS,
  type Condition,
  type Field,
  type Filter,
  type Operation,
  TEXT_SEARCHES,
} from '../request/grammar.js';
import { arrayLiteral, identifier, type Writer } from './writer.js';

const JSON_TYPES: ReadonlySet<string> = new Set(['json', 'jsonb']);
/** Types that `to_tsvector` accepts. */
const SEARCHABLE_TYPES: ReadonlySet<string> = new Set(['text', 'varchar', 'bpchar', 'json', 'jsonb']);
const PATTERNS: ReadonlySet<string> = new Set(['like', 'ilike']);

/** Marks in a resource that is spread that there was one; others have their JSON as `body`. */
export const FOUND = 'pgrst_found';

/** Where a condition's columns are found, and what its embedded resources are called in the statement. */
export interface Scope {
  node: ReadNode;
  alias: string;
  embeds: ReadonlyMap<string, string>;
}

export function columnSql({ alias }: Pick<Scope, 'alias'>, name: string): string {
  return name === '*' ? `${identifier(alias)}.*` : `${identifier(alias)}.${identifier(name)}`;
}

export function fieldSql(writer: Writer, scope: Scope, { name, path }: Field): string {
  const column = columnSql(scope, name);
  if (path.length === 0) return column;
  const isJson = JSON_TYPES.has(scope.node.table?.columns.get(name)?.base ?? '');
  const steps = path.map(({ arrow, key, isIndex }) => `${arrow}${writer.typed(key, isIndex ? 'int' : 'text')}`);
  return `(${isJson ? column : `to_jsonb(${column})`}${steps.join('')})`;
}

export function whereSql(writer: Writer, scope: Scope, conditions: readonly Condition[]): string {
  if (conditions.length === 0) return '';
  return ` where ${conditions.map((condition) => conditionSql(writer, scope, condition)).join(' and ')}`;
}

function conditionSql(writer: Writer, scope: Scope, condition: Condition): string {
  const not = condition.negated ? 'not ' : '';
  if (condition.kind === 'tree') {
    const members = condition.members.map((member) => conditionSql(writer, scope, member));
    return `${not}(${members.join(` ${condition.operator} `)})`;
  }
  const embed = embedOfCondition(scope.node, condition);
  // Of rows that are written only columns can be asked: what is embedded is read after.
  const joined = embed && scope.embeds.get(embed.name);
  if (embed === undefined || joined === undefined) return `${not}(${filterSql(writer, scope, condition)})`;
  const isNull = condition.operation.kind === 'is' && condition.operation.value === 'null';
  return `${not}(${identifier(joined)}.${embed.spread ? FOUND : 'body'} is ${isNull ? '' : 'not '}null)`;
}

const IS = { null: 'null', not_null: 'not null', true: 'true', false: 'false', unknown: 'unknown' };

function filterSql(writer: Writer, scope: Scope, { field, operation }: Filter): string {
  const left = fieldSql(writer, scope, field);
  const parse = field.path.length === 0 ? scope.node.table?.columns.get(field.name)?.fromText : undefined;
  switch (operation.kind) {
    case 'in':
      return `${left} = any(${parsedList(writer.constant(arrayLiteral(operation.values)), parse)})`;
    case 'is':
      return `${left} is ${IS[operation.value]}`;
    case 'search':
      return searchSql(writer, scope, field, left, operation);
    case 'compare': {
      const isPattern = PATTERNS.has(operation.operator);
      const value = writer.bind(operation.value, isPattern);
      const one = parse && !isPattern ? `${parse}(${value})` : value;
      const right = operation.quantifier ? `${operation.quantifier}(${parsedList(value, parse)})` : one;
      return `${left} ${COMPARISONS[operation.operator]} ${right}`;
    }
  }
}

/** `parse`: the function of a domain that reads its values. */
const parsedList = (list: string, parse: string | null | undefined) =>
  parse ? `select ${parse}(v) from unnest(${list}::text[]) v` : list;

function searchSql(
  writer: Writer,
  scope: Scope,
  field: Field,
  left: string,
  operation: Extract<Operation, { kind: 'search' }>,
) {
  const language = operation.language === undefined ? '' : `${writer.constant(operation.language)}::regconfig, `;
  const type = field.path.at(-1)?.arrow === '->>' ? 'text' : scope.node.table?.columns.get(field.name)?.base;
  const vector = type && SEARCHABLE_TYPES.has(type) ? `to_tsvector(${language}${left})` : left;
  return `${vector} @@ ${TEXT_SEARCHES[operation.operator]}(${language}${writer.bind(operation.value)})`;
}
