/**
 * Keys as constraints declare them, and which columns of views they can be seen through. A view's columns are traced to
 * its base tables by the rule that Postgres stored for it. In: catalogue rows. Out: numbers of relations and columns.
 */
export interface KeyRow {
  constraint: string;
  kind: 'p' | 'u' | 'f';
  relation: number;
  columns: number[];
  /** The table that a foreign key refers to. */
  foreign: number | null;
  foreignColumns: number[] | null;
}

export interface ViewRow {
  oid: number;
  /** The view's rule, as a pg_node_tree. */
  definition: string;
}

interface Entry {
  column: number;
  relation: number;
  relationColumn: number;
}

/** Where columns of a base table appear in a view: column of the table → columns of the view. */
export type Appearances = ReadonlyMap<number, number[]>;

/** By base table, by view. */
export type ViewKeys = ReadonlyMap<number, ReadonlyMap<number, Appearances>>;

/** Views upon views upon views: deeper ones are not traced. */
const MAX_DEPTH = 32;

export function keysOfViews(views: ViewRow[]): ViewKeys {
  const entries = new Map(views.map(({ oid, definition }) => [oid, targetEntries(definition)]));
  const result = new Map<number, Map<number, Map<number, number[]>>>();
  const note = (view: number, column: number, { relation, relationColumn }: Entry) => {
    const ofTable = result.get(relation) ?? result.set(relation, new Map()).get(relation);
    const ofView = ofTable?.get(view) ?? ofTable?.set(view, new Map()).get(view);
    const columns = ofView?.get(relationColumn);
    if (columns) columns.push(column);
    else ofView?.set(relationColumn, [column]);
  };
  for (const [view, list] of entries)
    for (const entry of list) {
      const base = traced(entries, entry, MAX_DEPTH);
      if (base) note(view, entry.column, base);
    }
  return result;
}

function traced(views: ReadonlyMap<number, Entry[]>, entry: Entry, depth: number): Entry | undefined {
  const view = views.get(entry.relation);
  if (!view) return entry;
  const next = view.find(({ column }) => column === entry.relationColumn);
  return next && depth > 0 ? traced(views, next, depth - 1) : undefined;
}

const TOKEN = /[(){}]|(?:\\.|[^\s(){}\\])+/gs;
const FIELDS = { ':resno': 'column', ':resorigtbl': 'relation', ':resorigcol': 'relationColumn' } as const;

/** The columns of the outermost query that are a relation's columns as they are. */
function targetEntries(definition: string): Entry[] {
  const found: Entry[] = [];
  let depth = 0;
  let inList = false;
  let entry: Entry | undefined;
  let field: keyof Entry | undefined;
  for (const [token] of definition.matchAll(TOKEN)) {
    if (token === '{') {
      depth++;
      if (depth === 2 && inList) entry = { column: 0, relation: 0, relationColumn: 0 };
    } else if (token === '}') {
      if (depth === 2 && entry && entry.relation !== 0) found.push(entry);
      if (depth === 2) entry = undefined;
      depth--;
    } else if (depth === 1 && token.startsWith(':')) inList = token === ':targetList';
    else if (depth === 2 && entry) {
      if (field) entry[field] = Number(token) || 0;
      field = Object.hasOwn(FIELDS, token) ? FIELDS[token as keyof typeof FIELDS] : undefined;
    }
  }
  return found;
}
