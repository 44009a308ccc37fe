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
/** Types of columns that `to_tsvector` accepts. */
const SEARCHABLE_TYPES: ReadonlySet<string> = new Set(['text', 'varchar', 'bpchar', 'json', 'jsonb']);
const PATTERNS: ReadonlySet<string> = new Set(['like', 'ilike']);

/**
 * Column that marks an existing spread row in an outer join. Other embedded resources have their JSON in the column
 * `body`.
 */
export const FOUND = 'pgrst_found';

/** Alias of a condition's columns, and aliases of embedded resources in the statement. */
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
  // Conditions on written rows can use only the rows' own columns, because embedded rows are read afterwards.
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
      return searchSql(writer, left, searchedType(scope, field), operation);
    case 'compare': {
      const isPattern = PATTERNS.has(operation.operator);
      const value = writer.bind(operation.value, isPattern);
      const one = parse && !isPattern ? `${parse}(${value})` : value;
      const right = operation.quantifier ? `${operation.quantifier}(${parsedList(value, parse)})` : one;
      return `${left} ${COMPARISONS[operation.operator]} ${right}`;
    }
  }
}

/** `parse` is the domain's function that parses values. */
const parsedList = (list: string, parse: string | null | undefined) =>
  parse ? `select ${parse}(v) from unnest(${list}::text[]) v` : list;

const searchedType = ({ node }: Scope, { name, path }: Field) =>
  path.at(-1)?.arrow === '->>' ? 'text' : node.table?.columns.get(name)?.base;

function searchSql(
  writer: Writer,
  left: string,
  type: string | undefined,
  operation: Extract<Operation, { kind: 'search' }>,
) {
  const language = operation.language === undefined ? '' : `${writer.constant(operation.language)}::regconfig, `;
  const vector = type && SEARCHABLE_TYPES.has(type) ? `to_tsvector(${language}${left})` : left;
  return `${vector} @@ ${TEXT_SEARCHES[operation.operator]}(${language}${writer.bind(operation.value)})`;
}
