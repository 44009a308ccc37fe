/**
 * One run of a person's SQL on one connection, of which only so much is kept. A single statement is run through a
 * portal, so the server stops at the row limit; several go as one simple query, and rows past the limit are dropped as
 * they come. In: SQL. Out: the outcome of each statement. Called by `query-connection.ts`; `pg` calls the `handle…`
 * methods.
 */
import type { Connection, Submittable } from 'pg';

/** Limits of a query's result: rows of one statement; bytes of JSON of rows and columns of all statements. */
export interface Limits {
  rows: number;
  keptBytes: number;
}

export interface Field {
  name: string;
  dataTypeID: number;
}

export interface StatementOutcome {
  fields: Field[];
  rows: (string | null)[][];
  /** SELECT, INSERT, CREATE TABLE, …; empty for an empty statement. */
  command: string;
  /** How many rows it returned or changed, as far as it is known. */
  count: number;
  truncated: boolean;
}

/** The methods of `pg`'s connection that its own queries call. */
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
    // One more than is kept, to know whether there are more.
    wire.execute({ portal: '', rows: this.limits.rows + 1 });
    wire.sync();
  }

  handleRowDescription({ fields, length }: { fields: Field[]; length: number }): void {
    this.kept += length;
    // A statement's columns are told whole or not at all.
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
    (connection as unknown as Wire).sendCopyFail('COPY FROM STDIN has nowhere to read from here; use INSERT');
  }

  handleCopyData(): void {
    this.current.truncated = true;
  }

  /** The last that `pg` calls of a query that failed. */
  handleError(error: Error): void {
    this.done.reject(error);
  }

  handleReadyForQuery(): void {
    this.done.resolve(this.outcomes);
  }

  private next(): void {
    this.outcomes.push(this.current);
    this.current = empty();
  }
}

const empty = (): StatementOutcome => ({ fields: [], rows: [], command: '', count: 0, truncated: false });
