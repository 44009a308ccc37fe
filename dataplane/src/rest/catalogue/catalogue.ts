/** What the exposed schemas hold, as planning asks for it: tables, their columns and keys, how they relate, functions. */
import { type Relationship, relate } from './relationships.js';

export interface Column {
  name: string;
  /** As a cast writes it, quoted where needed. */
  type: string;
  /** Without its modifier: `text`, `jsonb`, `_int4`. */
  base: string;
  nullable: boolean;
  default: string | null;
  generated: boolean;
  comment: string | null;
}

export interface ForeignKey {
  constraint: string;
  columns: string[];
  schema: string;
  table: string;
  foreignColumns: string[];
}

export interface TableRow {
  schema: string;
  name: string;
  comment: string | null;
  insertable: boolean;
  updatable: boolean;
  deletable: boolean;
  columns: Column[];
  primaryKey: string[];
  /** Column sets of unique keys, the primary one included. */
  uniques: string[][];
  foreignKeys: ForeignKey[];
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
}

export interface CatalogueRows {
  tables: TableRow[];
  functions: FunctionRow[];
}

export interface Table extends Omit<TableRow, 'columns'> {
  columns: ReadonlyMap<string, Column>;
  relationships: Relationship[];
}

export const keyOf = (schema: string, name: string) => `${schema}\0${name}`;

export class Catalogue {
  readonly tables = new Map<string, Table>();
  readonly functions = new Map<string, FunctionRow[]>();

  constructor(rows: CatalogueRows) {
    const relationships = relate(rows.tables);
    for (const row of rows.tables) {
      const key = keyOf(row.schema, row.name);
      this.tables.set(key, {
        ...row,
        columns: new Map(row.columns.map((column) => [column.name, column])),
        relationships: relationships.get(key) ?? [],
      });
    }
    for (const row of rows.functions) {
      const key = keyOf(row.schema, row.name);
      const overloads = this.functions.get(key);
      if (overloads) overloads.push(row);
      else this.functions.set(key, [row]);
    }
  }

  table(schema: string, name: string): Table | undefined {
    return this.tables.get(keyOf(schema, name));
  }

  overloads(schema: string, name: string): FunctionRow[] {
    return this.functions.get(keyOf(schema, name)) ?? [];
  }
}
