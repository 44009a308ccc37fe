/** What the gateway itself answers, in the words that clients know from upstream: status, body and headers as data. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { TokenProblem } from './tokens.js';

export interface Refusal {
  status: number;
  body: object;
  headers?: OutgoingHttpHeaders;
}

export function refuse(outgoing: ServerResponse, { status, body, headers }: Refusal): void {
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  const text = JSON.stringify(body);
  outgoing.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    ...headers,
  });
  outgoing.end(text);
}

export const UNKNOWN_PROJECT: Refusal = {
  status: 404,
  body: { message: 'There is no project at this address', hint: 'Its ref is part of project_url.' },
};

export const STARTING: Refusal = {
  status: 503,
  body: { message: 'The platform is starting; try again in a moment' },
  headers: { 'Retry-After': '1' },
};

export const NO_KEY: Refusal = {
  status: 401,
  body: {
    message: 'No API key found in request',
    hint: 'Send the project’s anon or service_role key in the header `apikey`.',
  },
};

export const INVALID_KEY: Refusal = {
  status: 401,
  body: { message: 'Invalid API key', hint: 'Double check your project’s `anon` or `service_role` API key.' },
};

export const BODY_TOO_LARGE: Refusal = {
  status: 413,
  body: { message: 'The request body is too large' },
  headers: { Connection: 'close' },
};

export const FAILED: Refusal = { status: 500, body: { message: 'An unexpected error occurred' } };

export const notHere = (service: string, why: string): Refusal => ({
  status: 404,
  body: { message: `${service} is not available here: ${why}` },
});

/** As PostgREST says it: https://docs.postgrest.org/en/stable/references/errors.html#group-3-jwt */
export function restTokenRefusal(problem: TokenProblem): Refusal {
  if (problem.kind === 'role') {
    return {
      status: 403,
      body: { code: '42501', details: null, hint: null, message: `permission denied to set role "${problem.role}"` },
    };
  }
  const [code, message, details] = REST_WORDS[problem.kind];
  return {
    status: 401,
    body: { code, details, hint: null, message },
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

/** As GoTrue says it; its own routes give it the status and shape of their API version. */
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
