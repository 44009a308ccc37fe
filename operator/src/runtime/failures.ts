/**
 * Sorts what a reconcile throws: a transient failure, which a retry may end, or an unexpected error, which is a defect
 * or a state of the world that no code handles. In: anything thrown. Used by the controllers, which write an unexpected
 * error into the status.
 */
import { REASON_UNEXPECTED_ERROR } from '@slipway/crds';
import { KubeError } from './kube.js';
import { TransientError } from './transient-error.js';

/**
 * A request that a server may serve a moment later: a stale object, a timeout, rate limiting, or the server's own
 * failure.
 */
const RETRYABLE_STATUSES = new Set([401, 404, 408, 409, 410, 429]);

export const isTransient = (error: unknown) =>
  error instanceof TransientError || (error instanceof KubeError && isRetryable(error));

/** A namespace that is being deleted rejects new objects with 403; it is gone a moment later. */
const isRetryable = ({ status, message }: KubeError) =>
  status >= 500 || RETRYABLE_STATUSES.has(status) || (status === 403 && /being terminated/.test(message));

/** A step of a reconcile that threw an unexpected error. */
export interface UnexpectedFailure {
  step: string;
  error: unknown;
}

/** For the status. It never quotes the error, as that may contain a secret. */
export const unexpectedMessage = (step: string) =>
  `the step "${step}" failed unexpectedly and is retried; ` +
  'the log of the operator has the error under "reconcile failed unexpectedly"';

/** The outcome of a step that failed unexpectedly. */
export const unexpectedOutcome = (step: string) =>
  ({ state: 'failed', reason: REASON_UNEXPECTED_ERROR, message: unexpectedMessage(step), retry: true }) as const;

/**
 * The fields of a log line. Other properties of an error, such as a Postgres error's `detail`, may quote a secret and
 * are left out, and so is the message of a SyntaxError, which quotes the text that JSON.parse read.
 */
export function loggableError(error: unknown): { error: string; stack: string } {
  if (!(error instanceof Error)) return { error: typeof error, stack: '' };
  const stack = error.stack ?? '';
  const frames = stack.slice(Math.max(0, stack.search(/^ {4}at /m)));
  return { error: error.name, stack: error instanceof SyntaxError ? `${error.name}\n${frames}` : stack };
}
