/** Errors of auth as values: status, upstream's error code, and message. The router turns them into HTTP. */
interface AuthErrorMore {
  /** Further members of the body. */
  details?: Record<string, unknown>;
  headers?: Record<string, string>;
  /** The error behind this one, for the logs. The response does not have it. */
  cause?: unknown;
}

export class AuthError extends Error {
  readonly details: Record<string, unknown>;
  readonly headers: Record<string, string>;

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    more: AuthErrorMore = {},
  ) {
    super(message, { cause: more.cause });
    this.details = more.details ?? {};
    this.headers = more.headers ?? {};
  }
}

export const badRequest = (code: string, message: string) => new AuthError(400, code, message);
export const validationFailed = (message: string) => new AuthError(400, 'validation_failed', message);
export const forbidden = (code: string, message: string) => new AuthError(403, code, message);
export const notFound = (code: string, message: string) => new AuthError(404, code, message);
export const unprocessable = (code: string, message: string) => new AuthError(422, code, message);

export const invalidCredentials = () => badRequest('invalid_credentials', 'Invalid login credentials');
export const emailExists = () =>
  unprocessable('email_exists', 'A user with this email address has already been registered');

export const phoneExists = () =>
  unprocessable('phone_exists', 'A user with this phone number has already been registered');

export const weakPassword = (message: string, reasons: string[]) =>
  new AuthError(422, 'weak_password', message, { details: { weak_password: { reasons } } });

export const tooManyRequests = (seconds = 60) =>
  new AuthError(429, 'over_request_rate_limit', 'Request rate limit reached', retryAfter(seconds));
export const tooSoon = (code: string, seconds: number) =>
  new AuthError(
    429,
    code,
    `For security purposes, you can only request this after ${seconds} seconds.`,
    retryAfter(seconds),
  );
export const tooManyMessages = (code: string, what: string, seconds: number) =>
  new AuthError(429, code, `${what} rate limit exceeded`, retryAfter(seconds));
export const unavailable = (message: string) => new AuthError(503, 'unexpected_failure', message, retryAfter(1));
const retryAfter = (seconds: number) => ({
  headers: { 'Retry-After': String(Number.isFinite(seconds) ? seconds : 3600) },
});

export const otpExpired = () => forbidden('otp_expired', 'Token has expired or is invalid');
export const insufficientAal = (status: number, message: string) => new AuthError(status, 'insufficient_aal', message);
