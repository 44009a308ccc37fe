/** Turns failed responses, connections and actions of the provider into errors, by code first and then by status. */
import { ProviderError, type ProviderErrorKind, type ProviderErrorOptions } from '../provider-error.js';

/** Facts of a failure that decide about repeating the request. */
export interface Failure {
  /** Undefined: no response. */
  status?: number;
  code: string;
  /** Names of the rejected fields. */
  fields?: readonly string[];
  /** True if the provider may have executed the request. */
  mayHaveRun: boolean;
  /** True if the same request may succeed in a moment. */
  transient: boolean;
}

export class ApiError extends ProviderError {
  constructor(
    kind: ProviderErrorKind,
    problem: string,
    readonly failure: Failure,
    options: ProviderErrorOptions = {},
  ) {
    super(kind, problem, options);
  }
}

const KINDS: Readonly<Record<string, ProviderErrorKind>> = {
  unauthorized: 'unauthorized',
  forbidden: 'unauthorized',
  token_readonly: 'unauthorized',
  resource_limit_exceeded: 'limit-reached',
  resource_unavailable: 'no-capacity',
  placement_error: 'no-capacity',
  no_space_left_in_location: 'no-capacity',
  not_found: 'not-found',
  uniqueness_error: 'conflict',
  protected: 'conflict',
  rate_limit_exceeded: 'unavailable',
  locked: 'unavailable',
  conflict: 'unavailable',
  maintenance: 'unavailable',
  resource_in_use: 'unavailable',
  server_error: 'unavailable',
  service_error: 'unavailable',
  bad_gateway: 'unavailable',
  timeout: 'unavailable',
};

const KINDS_BY_STATUS: Readonly<Record<number, ProviderErrorKind>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  404: 'not-found',
  408: 'unavailable',
  409: 'conflict',
  412: 'no-capacity',
  423: 'unavailable',
  429: 'unavailable',
};

const REMEDIES: Readonly<Record<string, string>> = {
  protected: 'An administrator must remove its protection at the provider.',
  server_not_stopped: 'Power the machine off first.',
};

/** Statuses of requests that the provider did not execute, and executes a moment later. */
const NOT_NOW = new Set([423, 429]);

const kindOf = (code: string, status: number): ProviderErrorKind =>
  KINDS[code] ?? KINDS_BY_STATUS[status] ?? (status >= 500 ? 'unavailable' : 'invalid');

/** `message`: of the provider, without secrets. */
export function responseError(
  status: number,
  { code, message, fields = [] }: { code: string; message: string; fields?: readonly string[] },
  retryAfterMs?: number,
): ApiError {
  const kind = kindOf(code, status);
  const isBroken = status >= 500 && kind === 'unavailable';
  const failure = {
    status,
    code,
    fields,
    mayHaveRun: isBroken || status === 408,
    transient: isBroken || status === 408 || NOT_NOW.has(status) || code === 'conflict',
  };
  const where = fields.length > 0 ? ` in ${fields.join(', ')}` : '';
  const problem = `The cloud provider responded with ${status} ${code}${where}: ${message}.`;
  const remedy = REMEDIES[code];
  return new ApiError(kind, problem, failure, { retryAfterMs, ...(remedy !== undefined && { remedy }) });
}

/** Codes of errors before the request was sent. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** `code`: of the connection's error. The error itself may contain the request's headers, so it is not kept. */
export const connectionError = (code: string): ApiError =>
  new ApiError('unavailable', `The cloud provider does not respond (${code}).`, {
    code,
    mayHaveRun: !NOT_SENT.has(code),
    transient: true,
  });

/** A response that can't be used, although the request may have been executed. */
export const unusableResponse = (status: number, why: string): ApiError =>
  new ApiError('unavailable', `The cloud provider's response can't be used: ${why}.`, {
    status,
    code: 'unusable_response',
    mayHaveRun: true,
    transient: false,
  });

/** An action that the provider began and could not finish. A repeated call begins another one. */
export class ActionFailed extends ApiError {
  constructor(command: string, { code, message }: { code: string; message: string }) {
    const problem = `The cloud provider failed to ${command.replaceAll('_', ' ')} (${code}): ${message}.`;
    super(KINDS[code] ?? 'unavailable', problem, { code, mayHaveRun: false, transient: false });
  }
}

export const hasCode = (error: unknown, ...codes: string[]): error is ApiError =>
  error instanceof ApiError && codes.includes(error.failure.code);

export const mayHaveRun = (error: unknown): error is ApiError => error instanceof ApiError && error.failure.mayHaveRun;
