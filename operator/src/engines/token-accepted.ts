/**
 * Whether an answer says that the caller's token was verified. In: what the gateway, PostgREST or realtime said. Out:
 * true for what nobody is told whose token was refused, be it an error.
 */

export interface Answer {
  status: number;
  /** The code of PostgREST's error, which ours tells in the same header; a HEAD has no body for it. */
  error?: string | undefined;
}

/** https://docs.postgrest.org/en/v14/references/errors.html#group-3-jwt */
const TOKEN_REFUSED = /^PGRST30/;
/**
 * By a function of the owner's that ran as the caller, such as `db_pre_request`: with whatever status, 401 and 503 too.
 */
const RAISED = /^P[0T]/;
/**
 * The gateway's own words, and those of who tells no code: the token, the project or the service is not known, or
 * nobody looked.
 */
const NOT_LET_IN = new Set([401, 403, 404, 408, 429]);

export function isTokenAccepted({ status, error }: Answer): boolean {
  if (error !== undefined && RAISED.test(error)) return true;
  if (status >= 500) return false;
  return error === undefined ? !NOT_LET_IN.has(status) : !TOKEN_REFUSED.test(error);
}

/** In: the header Proxy-Status (RFC 9209), to which whoever is in between may have added. */
export function postgrestError(proxyStatus: string | string[] | undefined): string | undefined {
  const text = Array.isArray(proxyStatus) ? proxyStatus.join(', ') : proxyStatus;
  return text && /(?:^|,)\s*PostgREST\s*;\s*error=([^\s;,]+)/.exec(text)?.[1];
}
