/**
 * Sends two statements of stock `pg` under one Sync: one implicit transaction, one write and one read on the socket.
 */
import type { Connection, Submittable } from 'pg';

export interface Statement {
  name: string;
  text: string;
  values: (string | null)[];
}

/** Members of a `pg` connection that its types omit. */
interface WireConnection {
  parsedStatements: Record<string, string>;
  stream: { cork(): void; uncork(): void };
  parse(query: { name: string; text: string; types: number[] }): void;
  bind(config: { portal: string; statement: string; values: (string | null)[]; binary: boolean }): void;
  execute(config: { portal: string; rows: number }): void;
  sync(): void;
}

export class OneSyncQuery implements Submittable {
  /** Called when the connection can take another query. */
  onReady: () => void = () => {};
  #value = '';
  #error: Error | undefined;
  readonly #statements: Statement[];
  readonly #settle: (error: Error | undefined, value: string) => void;

  constructor(statements: Statement[], settle: (error: Error | undefined, value: string) => void) {
    this.#statements = statements;
    this.#settle = settle;
  }

  submit(connection: Connection): void {
    const wire = connection as unknown as WireConnection;
    wire.stream.cork();
    for (const { name, text, values } of this.#statements) {
      if (wire.parsedStatements[name] === undefined) {
        wire.parse({ name, text, types: [] });
        wire.parsedStatements[name] = text;
      }
      wire.bind({ portal: '', statement: name, values, binary: false });
      wire.execute({ portal: '', rows: 0 });
    }
    wire.sync();
    wire.stream.uncork();
  }

  handleRowDescription(): void {}
  /** Postgres built the rows as JSON, in one column beside others. */
  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    this.#value = fields.find((field) => field?.startsWith('[')) ?? '';
  }
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handleError(error: Error): void {
    this.#error = error;
  }
  handleReadyForQuery(): void {
    // `pg` starts its own next query after this call, so the connection is free one tick later.
    process.nextTick(this.onReady);
    this.#settle(this.#error, this.#value);
  }
}
