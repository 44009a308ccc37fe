/** The exposed schemas as planning needs them: tables, their columns and keys, relationships, functions. */
import { identifier } from '../statement/writer.js';
import { type KeyRow, keysOfViews, type ViewRow } from './keys.js';
import { type Relationship, relate } from './relationships.js';
import type { RestSettings } from './settings.js';

export interface Column {
  name: string;
  /** Its number in its table, as keys name it. */
  number: number;
  /** The type as a cast writes it, quoted if needed. */
  type: string;
  /** Without its modifier: `text`, `jsonb`, `_int4`. */
  base: string;
  nullable: boolean;
  default: string | null;
  generated: boolean;
  comment: string | null;
  /** Labels of an enumerated type. */
  labels: string[] | null;
  maxLength: number | null;
  /** Functions of a domain's implicit casts: how its values look in JSON and in a query string. */
  toJson: string | null;
  fromJson: string | null;
  fromText: string | null;
}

export interface RelationRow {
  oid: number;
  schema: string;
  name: string;
  comment: string | null;
  isView: boolean;
  insertable: boolean;
  updatable: boolean;
  deletable: boolean;
  columns: Column[];
}

export interface FunctionParameter {
  name: string;
  type: string;
  required: boolean;
  variadic: boolean;
}

export interface FunctionRow {
  schema: string;
  name: string;
  comment: string | null;
  volatility: 'i' | 's' | 'v';
  parameters: FunctionParameter[];
  returns: 'void' | 'scalar' | 'composite';
  returnsSet: boolean;
  /** The table or composite type that it returns rows of. */
  returnsTable: { schema: string; name: string } | null;
  /** The media type whose domain it returns. */
  media: { type: string; isBytes: boolean } | null;
  /** The function's own `set statement_timeout`, in milliseconds. */
  timeoutMs: number | null;
}

/** A function of one row of a table to rows of another: a relationship that its owner wrote. */
export interface ComputedRow {
  schema: string;
  name: string;
  table: number;
  target: number;
  single: boolean;
}

/** An aggregate over rows that gives a media type. */
export interface HandlerRow {
  schema: string;
  name: string;
  media: string;
  isBytes: boolean;
  /** The table whose rows it takes; null: of any. */
  table: number | null;
}

export interface CatalogueRows {
  relations: RelationRow[];
  keys: KeyRow[];
  views: ViewRow[];
  functions: FunctionRow[];
  computed: ComputedRow[];
  handlers: HandlerRow[];
  /** Comments of the exposed schemas. */
  comments: Record<string, string>;
}

export interface Table extends Omit<RelationRow, 'columns'> {
  columns: ReadonlyMap<string, Column>;
  primaryKey: string[];
  relationships: Relationship[];
  /** Some column's values look different in JSON from what the column holds. */
  isRepresented: boolean;
}

const keyOf = (schema: string, name: string) => `${schema}\0${name}`;

export class Catalogue {
  readonly tables = new Map<string, Table>();
  readonly functions = new Map<string, FunctionRow[]>();
  readonly handlers: readonly HandlerRow[];
  readonly comments: Readonly<Record<string, string>>;
  private readonly searchPaths = new Map<string, string>();

  constructor(
    rows: CatalogueRows,
    readonly settings: RestSettings,
  ) {
    const views = keysOfViews(rows.views);
    const relationships = relate(rows.relations, rows.keys, rows.computed, views);
    for (const row of rows.relations) {
      this.tables.set(keyOf(row.schema, row.name), {
        ...row,
        columns: new Map(row.columns.map((column) => [column.name, column])),
        primaryKey: relationships.primaryKey(row.oid),
        relationships: relationships.of(row.oid),
        isRepresented: row.columns.some(({ toJson }) => toJson !== null),
      });
    }
    for (const row of rows.functions) {
      const key = keyOf(row.schema, row.name);
      const overloads = this.functions.get(key);
      if (overloads) overloads.push(row);
      else this.functions.set(key, [row]);
    }
    this.handlers = rows.handlers;
    this.comments = rows.comments;
  }

  table(schema: string, name: string): Table | undefined {
    return this.tables.get(keyOf(schema, name));
  }

  overloads(schema: string, name: string): FunctionRow[] {
    return this.functions.get(keyOf(schema, name)) ?? [];
  }

  /** Returns the search path of a request to one exposed schema. */
  searchPath(schema: string): string {
    const known = this.searchPaths.get(schema);
    if (known !== undefined) return known;
    const path = [...new Set([schema, ...this.settings.extraSearchPath])].map(identifier).join(', ');
    this.searchPaths.set(schema, path);
    return path;
  }

  handler(table: Table | undefined, media: string): HandlerRow | undefined {
    const suits = this.handlers.filter((handler) => handler.media === media);
    return suits.find((handler) => handler.table === table?.oid) ?? suits.find((handler) => handler.table === null);
  }
}
