/**
 * Classifies the errors that a reconcile throws. A transient failure may not occur at the next attempt. An unexpected
 * error is a defect, or a state that no code handles. In: any thrown value. Used by the controllers, which write an
 * unexpected error into the status.
 */

import { REASON_UNEXPECTED_ERROR } from '@slipway/installation';
import { KubeError, Unanswered } from '@slipway/kubernetes';
import { TransientError } from './transient-error.js';

/**
 * Statuses of requests that may succeed a moment later: a stale object, a timeout, a rate limit, or a failure of the
 * server itself.
 */
const RETRYABLE_STATUSES = new Set([401, 404, 408, 409, 410, 429]);

export const isTransient = (error: unknown) =>
  error instanceof TransientError || error instanceof Unanswered || (error instanceof KubeError && isRetryable(error));

/**
 * True for a retryable status. Also for a 403 from a namespace that is being deleted: a moment later the namespace no
 * longer exists.
 */
const isRetryable = ({ status, message }: KubeError) =>
  status >= 500 || RETRYABLE_STATUSES.has(status) || (status === 403 && /being terminated/.test(message));

/** A step of a reconcile that threw an unexpected error. */
export interface UnexpectedFailure {
  step: string;
  error: unknown;
}

/** Returns a message for the status. It never quotes the error, which may contain a secret. */
export const unexpectedMessage = (step: string) =>
  `the step "${step}" failed unexpectedly and is retried; ` +
  'the log of the operator has the error under "reconcile failed unexpectedly"';

/** The outcome of a step that failed unexpectedly. */
export const unexpectedOutcome = (step: string) =>
  ({ state: 'failed', reason: REASON_UNEXPECTED_ERROR, message: unexpectedMessage(step), retry: true }) as const;

/**
 * Returns the fields of a log line. Other properties of an error, such as a Postgres error's `detail`, may quote a
 * secret and are left out. The message of a SyntaxError is left out too, as it quotes the text that JSON.parse read.
 */
export function loggableError(error: unknown): { error: string; stack: string } {
  if (!(error instanceof Error)) return { error: typeof error, stack: '' };
  const stack = error.stack ?? '';
  const frames = stack.slice(Math.max(0, stack.search(/^ {4}at /m)));
  return { error: error.name, stack: error instanceof SyntaxError ? `${error.name}\n${frames}` : stack };
}
