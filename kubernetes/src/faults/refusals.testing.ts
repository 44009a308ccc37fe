/** Error responses for tests, in the words of a real API server. */

export type Refusal = 409 | 410 | 429 | 500;

const RETRY_AFTER_SECONDS = 1;

const REASONS: Record<Refusal, { reason: string; message: string }> = {
  409: {
    reason: 'Conflict',
    message:
      'Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version',
  },
  410: { reason: 'Expired', message: 'too old resource version: 1 (2)' },
  429: { reason: 'TooManyRequests', message: 'too many requests, please try again later' },
  500: { reason: 'InternalError', message: 'Internal error occurred: etcdserver: request timed out' },
};

export function answerOf(code: Refusal, method: string) {
  const { message } = REASONS[code];
  const reason = code === 409 && method === 'POST' ? 'AlreadyExists' : REASONS[code].reason;
  const body = JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason, code });
  const waitMs = code === 429 ? RETRY_AFTER_SECONDS * 1000 : 0;
  const headers = {
    'content-type': 'application/json',
    ...(waitMs > 0 ? { 'retry-after': String(RETRY_AFTER_SECONDS) } : {}),
  };
  return { headers, body, waitMs };
}
