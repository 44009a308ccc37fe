/** What every route of auth is given, and how it reads what the client sent. */
import type { OutgoingHttpHeaders } from 'node:http';
import { authTokenMessage } from '../gateway/refusals.js';
import { readBody } from '../request-body.js';
import type { ServiceRequest } from '../service.js';
import type { Pool } from '../sql/pool.js';
import { AuthError, badRequest, forbidden, validationFailed } from './errors.js';
import type { RateLimiter } from './rate-limit.js';
import type { Device } from './session.js';

export interface Context {
  request: ServiceRequest;
  pool: Pool;
  /** Attempts to get in, by address. */
  attempts: RateLimiter;
}

export interface Answer {
  status: number;
  /** JSON text, or what becomes it; absent: no content. */
  body?: object | string;
  headers?: OutgoingHttpHeaders;
}

export type Route = (context: Context) => Promise<Answer>;

const MAX_BODY_BYTES = 1024 * 1024;

/** The body as a JSON object; none is an empty one. */
export async function readJson({ incoming }: ServiceRequest): Promise<Record<string, unknown>> {
  const text = (await readBody(incoming, MAX_BODY_BYTES)).toString();
  if (text === '') return {};
  const value = parse(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badRequest('bad_json', 'Could not parse request body as JSON: an object is expected');
  }
  // Neither text nor jsonb of Postgres can hold it.
  if (text.includes('\\u0000')) throw validationFailed('The request body holds \\u0000, which cannot be stored');
  return value as Record<string, unknown>;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badRequest('bad_json', `Could not parse request body as JSON: ${(error as Error).message}`);
  }
}

/** A member that must be a string where it is there; null is as if absent. */
export function text(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw validationFailed(`${name} must be a string`);
  return value;
}

export function flag(body: Record<string, unknown>, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value !== 'boolean') throw validationFailed(`${name} must be true or false`);
  return value;
}

export function object(body: Record<string, unknown>, name: string): Record<string, unknown> | undefined {
  const value = body[name] ?? undefined;
  if (value !== undefined && (typeof value !== 'object' || Array.isArray(value))) {
    throw validationFailed(`${name} must be an object`);
  }
  return value as Record<string, unknown> | undefined;
}

const EMAIL = /^[^\s@<>()[\]\\,;:"]+@[^\s@<>()[\]\\,;:"]+\.[^\s@<>()[\]\\,;:".]+$/;

/** As it is stored: in lower case. */
export function validEmail(email: string): string {
  if (email.length > 255 || !EMAIL.test(email) || email.includes('..')) {
    throw validationFailed('Unable to validate email address: invalid format');
  }
  return email.toLowerCase();
}

/** As it is stored: digits alone. */
export function validPhone(phone: string): string {
  const digits = phone.replace(/^\+/, '').replaceAll(' ', '');
  if (!/^[1-9]\d{1,14}$/.test(digits)) throw validationFailed('Invalid phone number format (E.164 required)');
  return digits;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value);

export function deviceOf({ incoming }: ServiceRequest): Device {
  const address = incoming.socket.remoteAddress?.replace(/^::ffff:/, '').replace(/%.*$/, '') ?? null;
  return { address, userAgent: (incoming.headers['user-agent'] ?? '').slice(0, 1000) };
}

/** The verified claims of the Bearer token; there must be one. */
export function bearerClaims({ incoming, caller, tokenProblem }: ServiceRequest): Record<string, unknown> {
  if (tokenProblem) throw forbidden('bad_jwt', authTokenMessage(tokenProblem));
  if (!/^bearer \S/i.test(incoming.headers.authorization ?? '')) {
    throw new AuthError(401, 'no_authorization', 'This endpoint requires a valid Bearer token');
  }
  return JSON.parse(caller.claims) as Record<string, unknown>;
}

/** For routes of administrators: only the project's service_role may pass. */
export function requireAdmin(request: ServiceRequest): void {
  bearerClaims(request);
  if (request.caller.role !== 'service_role') throw forbidden('not_admin', 'User not allowed');
}
