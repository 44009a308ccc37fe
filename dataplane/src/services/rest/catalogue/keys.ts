/**
 * Keys of constraints, and the columns of views through which they are visible. A view's columns are traced to its base
 * tables by the rule that Postgres stored. In: catalogue rows. Out: numbers of relations and columns.
 */
import type { Steps } from '../../../bounds/turns.js';

export interface KeyRow {
  constraint: string;
  kind: 'p' | 'u' | 'f';
  relation: number;
  columns: number[];
  /** Referenced table of a foreign key. */
  foreign: number | null;
  foreignColumns: number[] | null;
}

export interface ViewRow {
  oid: number;
  /** Rule of the view, as a pg_node_tree. */
  definition: string;
}

interface Entry {
  column: number;
  relation: number;
  relationColumn: number;
}

/** Columns of a view by column of the base table. */
export type Appearances = ReadonlyMap<number, number[]>;

/** Columns of keys, by base table and by view. */
export type ViewKeys = ReadonlyMap<number, ReadonlyMap<number, Appearances>>;

/** Maximum number of nested views. Views that are nested deeper are not traced. */
const MAX_DEPTH = 32;

/** Number of columns that are traced in one step, each through at most MAX_DEPTH views. */
const COLUMNS_OF_STEP = 200;
/** Number of tokens of a view's rule that are read in one step. */
const TOKENS_OF_STEP = 2_000;

type Entries = ReadonlyMap<number, ReadonlyMap<number, Entry>>;

export function* keysOfViews(views: ViewRow[]): Steps<ViewKeys> {
  const entries = new Map<number, ReadonlyMap<number, Entry>>();
  for (const { oid, definition } of views) {
    entries.set(oid, yield* targetEntries(definition));
    yield;
  }
  const result = new Map<number, Map<number, Map<number, number[]>>>();
  const note = (view: number, column: number, { relation, relationColumn }: Entry) => {
    const ofTable = result.get(relation) ?? result.set(relation, new Map()).get(relation);
    const ofView = ofTable?.get(view) ?? ofTable?.set(view, new Map()).get(view);
    const columns = ofView?.get(relationColumn);
    if (columns) columns.push(column);
    else ofView?.set(relationColumn, [column]);
  };
  for (const [view, columns] of entries) {
    let done = 0;
    for (const entry of columns.values()) {
      const base = traced(entries, entry, MAX_DEPTH);
      if (base) note(view, entry.column, base);
      if (++done % COLUMNS_OF_STEP === 0) yield;
    }
    yield;
  }
  return result;
}

function traced(views: Entries, entry: Entry, depth: number): Entry | undefined {
  const view = views.get(entry.relation);
  if (!view) return entry;
  const next = view.get(entry.relationColumn);
  return next && depth > 0 ? traced(views, next, depth - 1) : undefined;
}

const TOKEN = /[(){}]|(?:\\.|[^\s(){}\\])+/gs;
const FIELDS = { ':resno': 'column', ':resorigtbl': 'relation', ':resorigcol': 'relationColumn' } as const;

/** Returns the columns of the outermost query that are unchanged columns of a relation, by their numbers. */
function* targetEntries(definition: string): Steps<ReadonlyMap<number, Entry>> {
  const entries = new Map<number, Entry>();
  let tokens = 0;
  let depth = 0;
  let inList = false;
  let entry: Entry | undefined;
  let field: keyof Entry | undefined;
  for (const [token] of definition.matchAll(TOKEN)) {
    if (++tokens % TOKENS_OF_STEP === 0) yield;
    if (token === '{') {
      depth++;
      if (depth === 2 && inList) entry = { column: 0, relation: 0, relationColumn: 0 };
    } else if (token === '}') {
      if (depth === 2 && entry && entry.relation !== 0) entries.set(entry.column, entry);
      if (depth === 2) entry = undefined;
      depth--;
    } else if (depth === 1 && token.startsWith(':')) inList = token === ':targetList';
    else if (depth === 2 && entry) {
      if (field) entry[field] = Number(token) || 0;
      field = Object.hasOwn(FIELDS, token) ? FIELDS[token as keyof typeof FIELDS] : undefined;
    }
  }
  return entries;
}
