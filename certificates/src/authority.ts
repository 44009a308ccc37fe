/** The interface of a certificate authority, as far as orders need it. */
export interface Authority {
  /**
   * Returns the key and the chain of a new certificate, in PEM. Throws an AuthorityProblem if the authority refuses, or
   * if it can't be reached.
   */
  issue(host: string, challenges: ChallengeResponder): Promise<string>;
}

export interface ChallengeResponder {
  /** Serves the response until it is withdrawn. */
  put(token: string, keyAuthorization: string): Promise<void>;
  withdraw(token: string): Promise<void>;
}

export class AuthorityProblem extends Error {
  /**
   * `retryAfterMs`: the authority limits the rate of orders, and accepts the next one after this time. `isUnreached`:
   * no response came, so that there is no order either.
   */
  constructor(
    message: string,
    readonly retryAfterMs?: number,
    readonly isUnreached = false,
  ) {
    super(message);
  }
}

/** Settings of an authority that speaks ACME. */
export interface AcmeSettings {
  /** URL of the authority's directory. */
  directory: string;
  /** Address to which the authority may send notices; undefined: none. */
  email: string | undefined;
  /** PEM of authorities that the connection to the directory trusts beside the system's; undefined: none. */
  trusted: string | undefined;
}
