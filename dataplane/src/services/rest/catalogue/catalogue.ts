/** Exposed schemas as planning needs them: tables, their columns and keys, relationships, functions. */
import type { Steps } from '../../../bounds/turns.js';
import { identifier } from '../statement/writer.js';
import { type KeyRow, keysOfViews, type ViewRow } from './keys.js';
import { type Relationship, relate } from './relationships.js';
import type { RestSettings } from './settings.js';

export interface Column {
  name: string;
  /** Number of the column in its table, as keys name it. */
  number: number;
  /** Type as a cast writes it, quoted if needed. */
  type: string;
  /** Type without its modifier: `text`, `jsonb`, `_int4`. */
  base: string;
  nullable: boolean;
  default: string | null;
  generated: boolean;
  comment: string | null;
  /** Labels of an enumerated type. */
  labels: string[] | null;
  maxLength: number | null;
  /** Functions of a domain's casts: its representation in JSON and in a query string. */
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
  /** Table or composite type of the returned rows. */
  returnsTable: { schema: string; name: string } | null;
  /** Media type whose domain the function returns. */
  media: { type: string; isBytes: boolean } | null;
  /** The function's own `set statement_timeout`, in milliseconds. */
  timeoutMs: number | null;
}

/** Function from one row of a table to rows of another: a relationship that the owner wrote. */
export interface ComputedRow {
  schema: string;
  name: string;
  table: number;
  target: number;
  single: boolean;
}

/** Aggregate over rows that returns a media type. */
export interface HandlerRow {
  schema: string;
  name: string;
  media: string;
  isBytes: boolean;
  /** Table whose rows the aggregate accepts. Null: any table. */
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
  /** True if some column has a domain representation. */
  isRepresented: boolean;
}

const keyOf = (schema: string, name: string) => `${schema}\0${name}`;

export class Catalogue {
  readonly tables = new Map<string, Table>();
  readonly functions = new Map<string, FunctionRow[]>();
  readonly handlers: readonly HandlerRow[];
  readonly comments: Readonly<Record<string, string>>;
  private readonly searchPaths = new Map<string, string>();

  private constructor(
    { functions, handlers, comments }: CatalogueRows,
    readonly settings: RestSettings,
    /** Bytes of the text that the catalogue was decoded from. */
    readonly bytes: number,
  ) {
    for (const row of functions) {
      const key = keyOf(row.schema, row.name);
      const overloads = this.functions.get(key);
      if (overloads) overloads.push(row);
      else this.functions.set(key, [row]);
    }
    this.handlers = handlers;
    this.comments = comments;
  }

  static *of(rows: CatalogueRows, settings: RestSettings, bytes = 0): Steps<Catalogue> {
    const catalogue = new Catalogue(rows, settings, bytes);
    const views = yield* keysOfViews(rows.views);
    const relationships = yield* relate(rows.relations, rows.keys, rows.computed, views);
    for (const row of rows.relations) {
      yield;
      catalogue.tables.set(keyOf(row.schema, row.name), {
        ...row,
        columns: new Map(row.columns.map((column) => [column.name, column])),
        primaryKey: relationships.primaryKey(row.oid),
        relationships: relationships.of(row.oid),
        isRepresented: row.columns.some(({ toJson }) => toJson !== null),
      });
    }
    return catalogue;
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
