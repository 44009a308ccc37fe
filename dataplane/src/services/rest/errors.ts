/**
 * Errors of the REST service as one value: HTTP status, and code, message, details and hint as in PostgREST. In: an
 * error of a stage or of the pool. Out: input of the response stage.
 */
import { ConcurrencyLimitReached, parseJson } from '@slipway/program';
import { AnswerTooLargeError, ConnectionError, DatabaseError, PoolBusyError } from '../../sql/pool.js';
import { isFraming, isLine, isToken } from './header-text.js';

export interface RestErrorParts {
  details?: unknown;
  hint?: string | null;
  headers?: Record<string, string>;
  statusText?: string;
}

export class RestError extends Error {
  override readonly name = 'RestError';
  readonly details: unknown;
  readonly hint: string | null;
  readonly headers: Record<string, string>;
  readonly statusText: string | undefined;
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    { details = null, hint = null, headers = {}, statusText }: RestErrorParts = {},
  ) {
    super(message);
    this.details = details;
    this.hint = hint;
    this.headers = headers;
    this.statusText = statusText;
  }

  withHint(hint: string): RestError {
    const { status, code, message, details, headers, statusText } = this;
    return new RestError(status, code, message, { details, hint, headers, ...(statusText ? { statusText } : {}) });
  }

  body(verbose = true): string {
    const { code, details, hint, message } = this;
    return JSON.stringify(verbose ? { code, details, hint, message } : { code, message });
  }
}

export const parseError = (what: string, text: string, column: number, details: string) =>
  new RestError(400, 'PGRST100', `"failed to parse ${what} (${text})" (line 1, column ${column})`, { details });

export const invalidBody = (message = 'Empty or invalid json') => new RestError(400, 'PGRST102', message);

export const invalidRange = (details: string, headers: Record<string, string> = {}) =>
  new RestError(416, 'PGRST103', 'Requested range not satisfiable', { details, headers });

export const singularity = (rows: number | string) =>
  new RestError(406, 'PGRST116', 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${rows} rows`,
  });

export const maxAffectedExceeded = (rows: number | string) =>
  new RestError(400, 'PGRST124', 'Query result exceeds max-affected preference constraint', {
    details: `The query affects ${rows} rows`,
  });

export const aggregatesNotAllowed = () => new RestError(400, 'PGRST123', 'Use of aggregate functions is not allowed');

export const invalidPreferences = (invalid: readonly string[]) =>
  new RestError(400, 'PGRST122', 'Invalid preferences given with handling=strict', {
    details: `Invalid preferences: ${invalid.join(', ')}`,
  });

export const notImplemented = (details: string) =>
  new RestError(400, 'PGRST127', 'Feature not implemented', { details });

/**
 * Header of an error by a server that is out of locks, memory or connections. Such a server recovers once the
 * responsible session ends.
 */
export const RETRY = { 'Retry-After': '1' };
const HEADERS_OF: Record<number, Record<string, string>> = { 401: { 'WWW-Authenticate': 'Bearer' }, 503: RETRY };

/** Statuses by the longest matching prefix of the SQLSTATE. All other SQLSTATEs have status 400. */
const STATUS_OF_SQLSTATE: Record<string, number> = {
  '08': 503,
  '09': 500,
  '0L': 403,
  '0P': 403,
  '21000': 500,
  '23503': 409,
  '23505': 409,
  '25': 500,
  '25006': 405,
  '28': 403,
  '2D': 500,
  '38': 500,
  '39': 500,
  '3B': 500,
  '40': 500,
  '42883': 404,
  '42P01': 404,
  '42P17': 500,
  '53': 503,
  '53400': 500,
  '54': 500,
  '55': 500,
  '57': 500,
  '57P01': 503,
  '58': 500,
  F0: 500,
  HV: 500,
  P0: 500,
  P0001: 400,
  XX: 500,
};

export function toRestError(error: unknown, anonymous: boolean): RestError {
  if (error instanceof RestError) return error;
  if (error instanceof DatabaseError) return fromPostgres(error, anonymous);
  if (error instanceof PoolBusyError)
    return new RestError(504, 'PGRST003', 'Timed out acquiring connection from connection pool.');
  if (error instanceof ConcurrencyLimitReached)
    return new RestError(503, 'PGRST003', 'Too many large request bodies wait to be read; try again in a moment.', {
      headers: RETRY,
    });
  if (error instanceof AnswerTooLargeError) return new RestError(500, error.code, error.message);
  if (error instanceof ConnectionError)
    return new RestError(503, 'PGRST000', 'Database connection error. Retrying the connection.', { headers: RETRY });
  throw error;
}

function fromPostgres(error: DatabaseError, anonymous: boolean): RestError {
  if (error.code === 'PGRST') return fromRaise(error);
  const status = statusOf(error, anonymous);
  return new RestError(status, error.code, error.message, {
    details: error.fields.detail ?? null,
    hint: error.fields.hint ?? null,
    headers: HEADERS_OF[status] ?? {},
  });
}

function statusOf({ code, message }: DatabaseError, anonymous: boolean): number {
  if (code === '42501') return anonymous ? 401 : 403;
  if (code === '21000' && message.endsWith('requires a WHERE clause')) return 400;
  if (/^PT[2-9]\d\d$/.test(code)) return Number(code.slice(2));
  if (code.startsWith('PT')) return 500;
  return STATUS_OF_SQLSTATE[code] ?? STATUS_OF_SQLSTATE[code.slice(0, 2)] ?? 400;
}

/** Parses the response from an error of `RAISE SQLSTATE 'PGRST'`, whose MESSAGE and DETAIL are JSON. */
function fromRaise({ message, fields }: DatabaseError): RestError {
  const body = object(message);
  const head = object(fields.detail);
  if (typeof body?.code !== 'string' || typeof body.message !== 'string')
    return raiseUnreadable(`Invalid JSON value for MESSAGE: '${message}'`);
  const status = head?.status;
  if (!head || typeof status !== 'number' || !(status >= 200 && status <= 599))
    return raiseUnreadable(
      fields.detail === undefined
        ? 'DETAIL is missing in the RAISE statement'
        : `Invalid JSON value for DETAIL: '${fields.detail}'`,
    );
  const headers = Object.entries(object(head.headers) ?? {}).map(([name, value]) => [name, String(value)] as const);
  const statusText = typeof head.status_text === 'string' ? head.status_text : undefined;
  const isSendable = headers.every(([name, value]) => isToken(name) && isLine(value)) && isLine(statusText ?? '');
  if (!isSendable) return raiseUnreadable(`Invalid JSON value for DETAIL: '${fields.detail}'`);
  return new RestError(status, body.code, body.message, {
    details: body.details ?? null,
    hint: typeof body.hint === 'string' ? body.hint : null,
    headers: Object.fromEntries(headers.filter(([name]) => !isFraming(name))),
    ...(statusText === undefined ? {} : { statusText }),
  });
}

const raiseUnreadable = (details: string) =>
  new RestError(500, 'PGRST121', `Could not parse JSON in the "RAISE SQLSTATE 'PGRST'" error`, {
    details,
    hint: details.includes('MESSAGE')
      ? "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'."
      : "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
  });

function object(value: unknown): Record<string, unknown> | undefined {
  try {
    const parsed = typeof value === 'string' ? parseJson(value) : value;
    return parsed && typeof parsed === 'object' && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
