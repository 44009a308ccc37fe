/**
 * Decides from a response whether the caller's token was verified. In: a response of the gateway, PostgREST or
 * realtime. Out: true unless a caller whose token was rejected could have received this response.
 */

export interface Answer {
  status: number;
  /**
   * The code of PostgREST's error in the header Proxy-Status, as a HEAD response has no body. Our REST sends it too.
   */
  error?: string | undefined;
}

/**
 * Matches PostgREST's codes for rejected tokens: https://docs.postgrest.org/en/v14/references/errors.html#group-3-jwt
 */
const TOKEN_REFUSED = /^PGRST30/;
/**
 * Matches codes that the owner's SQL raised while it ran as the caller, such as `db_pre_request`. They may have any
 * status, even 401 and 503.
 */
const RAISED = /^P[0T]/;
/**
 * Statuses, from the gateway and from services without a code, with which the token, the project or the service is
 * unknown, or the token was not checked.
 */
const NOT_LET_IN = new Set([401, 403, 404, 408, 429]);

export function isTokenAccepted({ status, error }: Answer): boolean {
  if (error !== undefined && RAISED.test(error)) return true;
  if (status >= 500) return false;
  return error === undefined ? !NOT_LET_IN.has(status) : !TOKEN_REFUSED.test(error);
}

/**
 * Returns PostgREST's error code from the header Proxy-Status (RFC 9209), to which proxies in between may have added
 * entries.
 */
export function postgrestError(proxyStatus: string | string[] | undefined): string | undefined {
  const text = Array.isArray(proxyStatus) ? proxyStatus.join(', ') : proxyStatus;
  return text && /(?:^|,)\s*PostgREST\s*;\s*error=([^\s;,]+)/.exec(text)?.[1];
}
