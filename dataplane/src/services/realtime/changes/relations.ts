/**
 * Tables that a replication session has described. Postgres describes a table once in a session, before its first
 * change, so no description can be evicted; tenants can create any number of tables, so there is a limit. In:
 * descriptions. Used by ChangeStream.
 */
import type { Relation } from './pgoutput.js';

/** Maximum bytes of the descriptions in memory, approximately. */
const MOST_BYTES = 32 * 1024 * 1024;
const COLUMN_BYTES = 100;

export class TooManyRelations extends Error {
  constructor() {
    super('changes of too many tables, or of tables with too many columns, occurred in one session');
  }
}

export class Relations {
  readonly #all = new Map<number, Relation>();
  #bytes = 0;

  get(oid: number): Relation | undefined {
    return this.#all.get(oid);
  }

  /** Stores a description. Throws TooManyRelations beyond the limit. */
  set(relation: Relation): void {
    const before = this.#all.get(relation.oid);
    this.#bytes += bytesOf(relation) - (before ? bytesOf(before) : 0);
    if (this.#bytes > MOST_BYTES) throw new TooManyRelations();
    this.#all.set(relation.oid, relation);
  }

  clear(): void {
    this.#all.clear();
    this.#bytes = 0;
  }
}

const bytesOf = ({ columns }: Relation) =>
  columns.reduce((bytes, { name }) => bytes + COLUMN_BYTES + 2 * name.length, COLUMN_BYTES);
