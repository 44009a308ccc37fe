/**
 * A failure that the same call may not meet again, such as a server that does not answer. A reconcile that throws it is
 * retried.
 */
export class TransientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TransientError';
  }
}
