/** Errors between a service and its database, of three kinds. Each service converts them to its clients' format. */

/** Postgres rejected a statement. The fields are those of its protocol; `message` is the primary message. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  constructor(
    message: string,
    readonly code: string,
    readonly fields: {
      severity?: string;
      detail?: string;
      hint?: string;
      position?: string;
      where?: string;
      schema?: string;
      table?: string;
      column?: string;
      constraint?: string;
      dataType?: string;
    } = {},
  ) {
    super(message);
  }
}

/** True if the server lacks locks, memory or connections: a temporary error, and the statement had no effect. */
export const isServerShort = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseError && /^53[023]/.test(error.code);

/**
 * The database is unreachable, or the connection was lost before the response. If `sent`, the work may or may not be
 * done.
 */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  constructor(
    message: string,
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * The result exceeds its limit. The connection was closed before all of it was received, so the work may or may not be
 * done. A repetition would fail again, so it is not repeated.
 */
export class AnswerTooLargeError extends ConnectionError {
  /** Postgres' `program_limit_exceeded`. */
  readonly code = '54000';
  constructor(bytes: number) {
    super(`The result of the database is larger than ${bytes} bytes. Request fewer or smaller rows.`, true);
  }
}

/** More work is waiting than the pool allows: the caller should retry later (503). */
export class PoolBusyError extends Error {
  override readonly name = 'PoolBusyError';
  constructor(waiting: number) {
    super(`${waiting} requests are already waiting for this project's database; try again shortly`);
  }
}
