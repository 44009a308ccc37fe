/** Refusals of the gateway itself, in the words that clients know from upstream: status, body and headers as data. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { type ProjectService, type ProjectType, whyUnavailable } from '@slipway/crds';
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
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  });
  outgoing.end(text);
}

export const UNKNOWN_PROJECT: Refusal = {
  status: 404,
  body: { message: 'There is no project at this address', hint: 'Its ref is part of project_url.' },
};

/** 421: the request went to a server that does not answer for its host name (RFC 9110). */
export const OTHER_HOST: Refusal = {
  status: 421,
  body: {
    type: 'about:blank',
    title: 'Misdirected Request',
    status: 421,
    detail:
      'This platform does not answer for the host name of the request. If the name is its own, set SLIPWAY_PUBLIC_URL to ' +
      'its address, or add the name to SLIPWAY_ALLOWED_HOSTS, and start it again.',
  },
  headers: { 'Content-Type': 'application/problem+json' },
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

export const TOO_SLOW: Refusal = {
  status: 408,
  body: { message: 'The request did not arrive in time' },
  headers: { Connection: 'close' },
};

export const TOO_MANY_REQUESTS: Refusal = {
  status: 429,
  body: {
    message: 'Too many requests from this address; try again in a second',
    hint: 'The installation sets the limit by SLIPWAY_RATE_LIMIT.',
  },
  headers: { 'Retry-After': '1' },
};

/** A service whose database or process is away: it is asked anew by the next request. */
export const serviceDown = (service: string): Refusal => ({
  status: 502,
  body: {
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    detail: `The ${service} service does not answer; it may be starting. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

/** One that is there, but has not answered in time. */
export const serviceTooSlow = (service: string): Refusal => ({
  status: 504,
  body: {
    type: 'about:blank',
    title: 'Gateway Timeout',
    status: 504,
    detail: `The ${service} service did not answer in time. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

export const serviceBusy = (service: string): Refusal => ({
  status: 503,
  body: {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: `Too many requests to the ${service} service are under way. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

/** In the words of problem documents, and in those that clients of the services show. */
export function suspended(ref: string): Refusal {
  const message = 'The project is suspended: its data stays, and nothing of it runs.';
  const hint = `Whoever runs the platform resumes it by spec.suspend: false of its Project: kubectl patch project ${ref} --type merge -p '{"spec":{"suspend":false}}'`;
  const problem = { type: 'urn:slipway:problem:project-suspended', title: 'The project is suspended', status: 503 };
  return {
    status: 503,
    body: { ...problem, code: 'project_suspended', detail: `${message} ${hint}`, message, hint },
    headers: { 'Content-Type': 'application/problem+json' },
  };
}

export const NO_UPGRADE: Refusal = {
  status: 400,
  body: { message: 'There is nothing here that speaks another protocol than HTTP' },
};

export const FAILED: Refusal = { status: 500, body: { message: 'An unexpected error occurred' } };

export const notHere = (service: string, why: string): Refusal => ({
  status: 404,
  body: { message: `${service} is not available here: ${why}` },
});

/** By the availability matrix: the installation's own choice, which one setting changes. */
export const unavailable = (service: ProjectService, type: ProjectType): Refusal => ({
  status: 404,
  body: whyUnavailable(service, type),
});

/** Formats the refusal as PostgREST does: https://docs.postgrest.org/en/stable/references/errors.html#group-3-jwt */
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

/** Formats the refusal as Supabase's storage does, where `message` and `hint` are one text. */
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
