/** Syntax tree of a query string, from parsing to planning. */

/** Column with an optional path into its JSON. */
export interface Field {
  name: string;
  path: JsonStep[];
}

export interface JsonStep {
  arrow: '->' | '->>';
  key: string;
  isIndex: boolean;
}

export interface FieldItem {
  kind: 'field';
  field: Field;
  alias: string | undefined;
  cast: string | undefined;
  aggregate: Aggregate | undefined;
}

export const AGGREGATES = ['avg', 'count', 'max', 'min', 'sum'] as const;

export interface Aggregate {
  name: (typeof AGGREGATES)[number];
  /** Cast of the aggregate's result. */
  cast: string | undefined;
}

export interface EmbedItem {
  kind: 'embed';
  relation: string;
  alias: string | undefined;
  hint: string | undefined;
  join: 'inner' | 'left';
  spread: boolean;
  select: SelectItem[];
}

export type SelectItem = FieldItem | EmbedItem;

/** Value within a parameter of the query string, from `start` on. Requests of the same shape differ there. */
export interface Slot {
  parameter: number;
  start: number;
}

export interface Value {
  text: string;
  slot: Slot | undefined;
}

/** Operators with one value, or, with any or all, an array of values. */
export const COMPARISONS = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
} as const;
export type Comparison = keyof typeof COMPARISONS;

export const QUANTIFIABLE: ReadonlySet<string> = new Set([
  'eq',
  'gt',
  'gte',
  'lt',
  'lte',
  'like',
  'ilike',
  'match',
  'imatch',
]);

export const TEXT_SEARCHES = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
} as const;
export type TextSearch = keyof typeof TEXT_SEARCHES;

export type Operation =
  | { kind: 'compare'; operator: Comparison; quantifier: 'any' | 'all' | undefined; value: Value }
  | { kind: 'in'; values: string[] }
  | { kind: 'is'; value: 'null' | 'not_null' | 'true' | 'false' | 'unknown' }
  | { kind: 'search'; operator: TextSearch; language: string | undefined; value: Value };

export interface Filter {
  kind: 'filter';
  field: Field;
  negated: boolean;
  operation: Operation;
}

export type Condition = Filter | { kind: 'tree'; negated: boolean; operator: 'and' | 'or'; members: Condition[] };

export interface OrderTerm {
  /** Name of an embedded resource; undefined: the resource itself. */
  relation: string | undefined;
  field: Field;
  direction: 'asc' | 'desc' | undefined;
  nulls: 'first' | 'last' | undefined;
}

/** Clause for the resource itself (`path` empty) or for one embedded in it. */
export interface At<T> {
  path: string[];
  value: T;
}

export interface QueryString {
  select: SelectItem[];
  conditions: At<Condition>[];
  order: At<OrderTerm[]>[];
  /** Limits of embedded resources. Those of the resource itself are the request's range. */
  limits: At<{ limit: number | undefined; offset: number }>[];
  columns: string[] | undefined;
  onConflict: string[] | undefined;
  /** Arguments of a function. */
  parameters: { name: string; value: Value }[];
}
