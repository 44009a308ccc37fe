/** Errors of requests to the Kubernetes API. */

/** An error response of the API server. */
export class KubeError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    /** The requested resource, in the plural: `secrets`. */
    readonly resource: string,
  ) {
    super(message);
    this.name = 'KubeError';
  }
}

/** A request without a response, or with half of one. It is unknown whether the request was executed. */
export class Unanswered extends Error {
  constructor(cause: Error) {
    super(`the Kubernetes API does not answer: ${cause.message}`, { cause });
    this.name = 'Unanswered';
  }
}

/** A response beyond the limit, which was not read. */
export class AnswerTooLarge extends Error {
  constructor() {
    super('the response of the Kubernetes API is larger than the limit');
    this.name = 'AnswerTooLarge';
  }
}

export const isNotFound = (error: unknown) => error instanceof KubeError && error.status === 404;
export const isConflict = (error: unknown) => error instanceof KubeError && error.status === 409;
export const isInvalid = (error: unknown) => error instanceof KubeError && error.status === 422;
export const isGone = (error: unknown) => error instanceof KubeError && error.status === 410;
