/**
 * Errors between a service and its database: values of three kinds, which each service turns into its clients' words.
 */

/** Postgres refused a statement. The fields are those of its protocol; `message` is the primary one. */
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

/**
 * The database can't be reached, or went away before it answered: whether the work was done is not known when `sent`.
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
 * The database's answer is larger than one may be. Its connection was ended before all of it was received, so whether
 * the work was done is not known. The same statement would do so again: it is not repeated.
 */
export class AnswerTooLargeError extends ConnectionError {
  /** Postgres' `program_limit_exceeded`. */
  readonly code = '54000';
  constructor(bytes: number) {
    super(`The answer of the database is larger than ${bytes} bytes. Ask for fewer or smaller rows.`, true);
  }
}

/** More work is waiting than the pool allows: the caller should come back later (503). */
export class PoolBusyError extends Error {
  override readonly name = 'PoolBusyError';
  constructor(waiting: number) {
    super(`${waiting} requests are already waiting for this project's database; try again shortly`);
  }
}
