/** Rejections of tokens, in the format of each service's upstream. */
import type { Refusal } from '../http/refusals.js';
import type { TokenProblem } from './tokens.js';

/**
 * Returns the rejection as PostgREST does: https://docs.postgrest.org/en/stable/references/errors.html#group-3-jwt.
 * `ref` is for the hint, and undefined if the server has only one project.
 */
export function restTokenRefusal(problem: TokenProblem, ref?: string): Refusal {
  if (problem.kind === 'role') {
    return {
      status: 403,
      body: { code: '42501', details: null, hint: null, message: `permission denied to set role "${problem.role}"` },
    };
  }
  const [code, message, details] = REST_WORDS[problem.kind];
  const isForeign = problem.kind === 'signature' && ref !== undefined;
  const hint = isForeign ? `This token is not for project ${ref}: no key of that project signed it.` : null;
  return {
    status: 401,
    body: { code, details, hint, message },
    headers: { 'WWW-Authenticate': `Bearer error="invalid_token", error_description="${message}"` },
  };
}

const REST_WORDS = {
  malformed: ['PGRST301', "JWT couldn't be decoded", null],
  algorithm: ['PGRST301', 'Wrong or unsupported encoding algorithm', null],
  signature: ['PGRST301', 'No suitable key or wrong key type', 'None of the keys was able to decode the JWT'],
  expired: ['PGRST303', 'JWT expired', null],
  'not-yet-valid': ['PGRST303', 'JWT not yet valid', null],
  claims: ['PGRST303', 'Parsing claims failed', null],
} as const;

/** Returns GoTrue's message. GoTrue's own routes add the status and shape of their API version. */
export const authTokenMessage = ({ kind }: TokenProblem) =>
  `invalid JWT: unable to parse or verify signature, ${AUTH_WORDS[kind]}`;

export const authTokenRefusal = (problem: TokenProblem): Refusal => ({
  status: 403,
  body: { code: 403, error_code: 'bad_jwt', msg: authTokenMessage(problem) },
});

const AUTH_WORDS = {
  malformed: 'token is malformed',
  algorithm: 'token signature is invalid: signing method is invalid',
  signature: 'token signature is invalid: signature is invalid',
  expired: 'token has invalid claims: token is expired',
  'not-yet-valid': 'token has invalid claims: token is not valid yet',
  claims: 'token has invalid claims',
  role: 'token has invalid claims: role is not allowed',
} as const;

/** Returns the rejection as Supabase's storage does, where `message` and `hint` are one text. */
export function storageRefusal({ status, body, headers }: Refusal): Refusal {
  const { message, detail, hint } = body as { message?: string; detail?: string; hint?: string };
  const words = [message ?? detail, hint].filter((part) => part !== undefined).join('. ');
  return {
    status,
    body: { statusCode: String(status), error: STORAGE_ERRORS[status] ?? 'Error', message: words },
    ...(headers ? { headers: { ...headers, 'Content-Type': 'application/json; charset=utf-8' } } : {}),
  };
}

const STORAGE_ERRORS: Readonly<Record<number, string>> = {
  400: 'InvalidRequest',
  401: 'Unauthorized',
  404: 'not_found',
  408: 'Timeout',
  413: 'Payload too large',
  429: 'too_many_requests',
  500: 'Internal',
  502: 'Bad Gateway',
  503: 'SlowDown',
};

export const storageTokenRefusal = ({ kind }: TokenProblem): Refusal => ({
  status: 400,
  body: { statusCode: '403', error: 'Unauthorized', message: STORAGE_TOKEN_WORDS[kind] },
});

const STORAGE_TOKEN_WORDS = {
  malformed: 'Invalid Compact JWS',
  algorithm: '"alg" (Algorithm) Header Parameter value not allowed',
  signature: 'signature verification failed',
  expired: '"exp" claim timestamp check failed',
  'not-yet-valid': '"nbf" claim timestamp check failed',
  claims: 'unexpected claim value',
  role: 'unexpected "role" claim value',
} as const;

export const functionsTokenRefusal = (_problem: TokenProblem): Refusal => ({
  status: 401,
  body: { code: 401, message: 'Invalid JWT' },
});
