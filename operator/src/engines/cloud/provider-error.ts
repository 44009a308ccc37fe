/** The errors of a cloud provider: what is wrong, and what helps. */

export type ProviderErrorKind =
  /** The provider rejects the token, or the token may not write. */
  | 'unauthorized'
  /** The account may not have more machines, keys, firewalls or snapshots. */
  | 'limit-reached'
  /** No location can place the machine now. */
  | 'no-capacity'
  /** The provider rejects the request. */
  | 'invalid'
  | 'not-found'
  /** Something else has that name, or is protected. */
  | 'conflict'
  /** No response, a rate limit, a lock, or a failure of the provider. */
  | 'unavailable';

interface Handling {
  /** True if the same call may succeed later without a change by a person. */
  retryable: boolean;
  remedy: string;
}

const HANDLING: Readonly<Record<ProviderErrorKind, Handling>> = {
  unauthorized: {
    retryable: false,
    remedy: 'An administrator must create an API token with read and write access and write it to the token file.',
  },
  'limit-reached': {
    retryable: false,
    remedy: 'An administrator must delete what is not needed at the provider, or request a higher limit there.',
  },
  'no-capacity': { retryable: true, remedy: 'Try again later, or choose another region or plan.' },
  invalid: { retryable: false, remedy: 'Change the request.' },
  'not-found': { retryable: false, remedy: 'Somebody deleted it at the provider. It must be created again.' },
  conflict: { retryable: false, remedy: 'An administrator must rename or delete the other one at the provider.' },
  unavailable: { retryable: true, remedy: 'The operation is repeated later.' },
};

export interface ProviderErrorOptions {
  /** Default: by the kind. */
  remedy?: string;
  /** The provider accepts no request before. */
  retryAfterMs?: number | undefined;
}

/**
 * A call of a provider that failed. The message is the problem and the remedy, for people. It never contains the token.
 */
export class ProviderError extends Error {
  readonly retryable: boolean;
  readonly remedy: string;
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly kind: ProviderErrorKind,
    /** A sentence. */
    readonly problem: string,
    { remedy = HANDLING[kind].remedy, retryAfterMs }: ProviderErrorOptions = {},
  ) {
    super(`${problem} ${remedy}`);
    this.name = 'ProviderError';
    this.retryable = HANDLING[kind].retryable;
    this.remedy = remedy;
    this.retryAfterMs = retryAfterMs;
  }
}

export const isKind = (error: unknown, kind: ProviderErrorKind): error is ProviderError =>
  error instanceof ProviderError && error.kind === kind;
