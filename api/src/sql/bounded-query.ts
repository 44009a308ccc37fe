/**
 * Runs a caller's SQL once on one connection, and keeps a limited part of the result. A single statement runs through a
 * portal, so the server stops at the row limit. Several statements run as one simple query, of which further rows are
 * dropped. In: SQL. Out: the outcome of each statement. Called by `query-connection.ts`; `pg` calls the `handle…`
 * methods.
 */
import type { Connection, Submittable } from 'pg';

/** Limits of a result: rows of a statement, statements, and bytes of JSON of all statements. */
export interface Limits {
  rows: number;
  statements: number;
  keptBytes: number;
}

export interface Field {
  name: string;
  dataTypeID: number;
}

export interface StatementOutcome {
  fields: Field[];
  rows: (string | null)[][];
  /** Command tag, such as SELECT or INSERT; empty for an empty statement. */
  command: string;
  /** Rows returned or changed, as far as known. */
  count: number;
  truncated: boolean;
}

/** Methods of `pg`'s connection that its own queries call. */
interface Wire {
  parse(message: { text: string; types: number[] }): void;
  bind(message: object): void;
  describe(message: { type: 'P'; name: string }): void;
  execute(message: { portal: string; rows: number }): void;
  sync(): void;
  query(text: string): void;
  sendCopyFail(message: string): void;
}

export class TooMuchKept extends Error {}
export class TooManyStatements extends Error {}

export class BoundedQuery implements Submittable {
  readonly outcome: Promise<StatementOutcome[]>;
  private readonly done = Promise.withResolvers<StatementOutcome[]>();
  private readonly outcomes: StatementOutcome[] = [];
  private current = empty();
  private kept = 0;
  /** Bytes of the columns' names, which each row repeats in JSON. */
  private nameBytes = 0;

  constructor(
    private readonly sql: string,
    private readonly form: 'portal' | 'simple',
    private readonly limits: Limits,
  ) {
    this.outcome = this.done.promise;
  }

  submit(connection: Connection): void {
    const wire = connection as unknown as Wire;
    if (this.form === 'simple') return wire.query(this.sql);
    wire.parse({ text: this.sql, types: [] });
    wire.bind({});
    wire.describe({ type: 'P', name: '' });
    // One row more than the limit shows whether the result is truncated.
    wire.execute({ portal: '', rows: this.limits.rows + 1 });
    wire.sync();
  }

  handleRowDescription({ fields, length }: { fields: Field[]; length: number }): void {
    this.kept += length;
    // A statement's columns are returned whole or not at all.
    if (this.kept > this.limits.keptBytes) return this.done.reject(new TooMuchKept());
    this.current.fields = fields.map(({ name, dataTypeID }) => ({ name, dataTypeID }));
    this.nameBytes = fields.reduce((bytes, { name }) => bytes + JSON.stringify(name).length, 0);
  }

  handleDataRow({ fields, length }: { fields: (string | null)[]; length: number }): void {
    const bytes = length + this.nameBytes;
    const full = this.current.rows.length >= this.limits.rows || this.kept + bytes > this.limits.keptBytes;
    if (full || this.current.truncated) {
      this.current.truncated = true;
      return;
    }
    this.kept += bytes;
    this.current.rows.push(fields);
  }

  handleCommandComplete({ text }: { text: string }): void {
    const words = text.split(' ');
    const count = Number(words.at(-1));
    const counted = words.length > 1 && Number.isInteger(count);
    this.current.command = words.filter((word) => !/^\d+$/.test(word)).join(' ');
    this.current.count = counted ? count : 0;
    this.next();
  }

  handlePortalSuspended(): void {
    this.current.command = 'SELECT';
    this.current.truncated = true;
    this.current.count = this.current.rows.length;
    this.next();
  }

  handleEmptyQuery(): void {
    this.next();
  }

  handleCopyInResponse(connection: Connection): void {
    (connection as unknown as Wire).sendCopyFail('COPY FROM STDIN has no input here. Use INSERT.');
  }

  handleCopyData(): void {
    this.current.truncated = true;
  }

  /** The last method that `pg` calls for a failed query. */
  handleError(error: Error): void {
    this.done.reject(error);
  }

  handleReadyForQuery(): void {
    this.done.resolve(this.outcomes);
  }

  /** The promise is rejected once, but the connection may still read messages until it is closed. */
  private next(): void {
    if (this.outcomes.length >= this.limits.statements) return this.done.reject(new TooManyStatements());
    this.outcomes.push(this.current);
    this.current = empty();
  }
}

const empty = (): StatementOutcome => ({ fields: [], rows: [], command: '', count: 0, truncated: false });
