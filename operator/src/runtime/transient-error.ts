/**
 * A failure that may not occur when the same call is repeated, such as an unavailable server. A reconcile that throws
 * it is retried.
 */
export class TransientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TransientError';
  }
}
