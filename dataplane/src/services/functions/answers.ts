/** Responses that the platform sends in place of a function's response, in the format of upstream's edge runtime. */
import type { Refusal } from '../../http/refusals.js';
import type { EndReason } from './isolate.js';

const relay = (status: number, code: string, message: string, headers: Record<string, string> = {}): Refusal => ({
  status,
  body: { code, message },
  // functions-js throws a FunctionsRelayError for it, because the response is not the function's own.
  headers: { 'x-relay-error': 'true', ...headers },
});

export const NOT_FOUND: Refusal = {
  status: 404,
  body: { code: 'NOT_FOUND', message: 'Requested function was not found' },
};

export const NO_TOKEN: Refusal = {
  status: 401,
  body: { code: 'UNAUTHORIZED_NO_AUTH_HEADER', message: 'Missing authorization header' },
};

export const TOO_LATE = relay(504, 'IDLE_TIMEOUT', 'Function did not answer in time');
export const CANNOT_REACH = relay(500, 'WORKER_ERROR', 'Function exited due to an error (please check logs)');

const NO_RESOURCES = relay(
  546,
  'WORKER_LIMIT',
  'Function failed due to not having enough compute resources (please check logs)',
);

/** Error for a request whose isolate ended. */
export function endedUnder(reason: EndReason | undefined): Refusal {
  return reason === 'cpu' || reason === 'memory' ? NO_RESOURCES : CANNOT_REACH;
}

/** Error response for a damaged function until the operator deploys the function again. */
export const UNREADABLE = relay(503, 'UNREADABLE', 'Function is damaged on disk and is being deployed again', {
  'Retry-After': '5',
});

const TOO_MANY = new Set(['TOO_MANY_REQUESTS', 'PROJECT_SHARE', 'ACCOUNT_SHARE']);

export const unavailable = (code: string, message: string, seconds: number): Refusal =>
  relay(TOO_MANY.has(code) ? 429 : 503, code, message, { 'Retry-After': String(seconds) });
