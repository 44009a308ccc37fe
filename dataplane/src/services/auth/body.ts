/** Reads the members of a request's body by type, and rejects others with upstream's errors. */
import { JsonRefusal } from '@slipway/program';
import { decodeFor, readBody } from '../../http/request-body.js';
import type { ServiceRequest } from '../service.js';
import { badRequest, validationFailed } from './errors.js';

export type Body = Record<string, unknown>;

/** Maximum bytes of a body. It is small, because hundreds of requests wait while passwords are hashed. */
const MAX_BODY_BYTES = 64 * 1024;
/** Maximum number of JSON values in a body: an empty object takes much more memory than its two characters. */
const MAX_VALUES = 2_000;
/** Maximum levels of a member: far fewer than would overflow the stack of code that serializes the member. */
const MAX_DEPTH = 100;

/** Reads the body as a JSON object. */
export async function readJson(request: ServiceRequest): Promise<Body> {
  return objectOf(request, await readBytes(request));
}

/** Reads the body where upstream makes it optional: a missing one is an empty object. */
export async function readOptionalJson(request: ServiceRequest): Promise<Body> {
  const bytes = await readBytes(request);
  return bytes.length === 0 ? {} : objectOf(request, bytes);
}

const readBytes = (request: ServiceRequest) => readBody(request, MAX_BODY_BYTES);

function objectOf(request: ServiceRequest, bytes: Buffer): Body {
  const value = parse(request, bytes);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badRequest('bad_json', 'Could not parse request body as JSON: an object is expected');
  }
  checkMembers(value as Body);
  return value as Body;
}

function checkMembers(body: Body): void {
  let values = 0;
  const check = (member: string, value: unknown, depth: number): void => {
    if (++values > MAX_VALUES) throw validationFailed(`The request body holds more than ${MAX_VALUES} values`);
    if (depth > MAX_DEPTH) throw validationFailed(`${member} is nested more than ${MAX_DEPTH} levels deep`);
    if (typeof value === 'string') checkStorable(member, value);
    if (typeof value !== 'object' || value === null) return;
    for (const [name, each] of Object.entries(value)) {
      checkStorable(member, name);
      check(member, each, depth + 1);
    }
  };
  for (const [member, value] of Object.entries(body)) check(member, value, 1);
}

/** Rejects text that neither text nor jsonb of Postgres can store. */
function checkStorable(name: string, value: string): void {
  if (value.includes('\0')) throw validationFailed(`${name} holds \\u0000, which cannot be stored`);
  if (!value.isWellFormed()) throw validationFailed(`${name} holds half of a surrogate pair, which cannot be stored`);
}

/** Parses a query or a form into an object. */
export function parametersOf(encoded: string): URLSearchParams {
  const parameters = new URLSearchParams(encoded);
  for (const [name, value] of parameters) checkStorable(name, value);
  return parameters;
}

function parse(request: ServiceRequest, bytes: Buffer): unknown {
  try {
    // So few bytes decode within a millisecond or two. `checkMembers` names the member that is too deep.
    return decodeFor(request, bytes, { bytes: MAX_BODY_BYTES, depth: MAX_BODY_BYTES, values: MAX_BODY_BYTES });
  } catch (error) {
    if (!(error instanceof JsonRefusal)) throw error;
    throw badRequest('bad_json', `Could not parse request body as JSON: ${(error as Error).message}`);
  }
}

export const readForm = async (request: ServiceRequest) => parametersOf((await readBytes(request)).toString());

/** Returns a member that must be a string if present; null counts as absent. */
export function text(body: Body, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw validationFailed(`${name} must be a string`);
  return value;
}

export function flag(body: Body, name: string, fallback = false): boolean {
  const value = body[name] ?? fallback;
  if (typeof value !== 'boolean') throw validationFailed(`${name} must be true or false`);
  return value;
}

export function object(body: Body, name: string): Record<string, unknown> | undefined {
  const value = body[name] ?? undefined;
  if (value !== undefined && (typeof value !== 'object' || Array.isArray(value))) {
    throw validationFailed(`${name} must be an object`);
  }
  return value as Record<string, unknown> | undefined;
}

const EMAIL = /^[^\s@<>()[\]\\,;:"]+@[^\s@<>()[\]\\,;:"]+\.[^\s@<>()[\]\\,;:".]+$/;

/** Returns the address as stored: in lower case. */
export function validEmail(email: string): string {
  if (email.length > 255 || !EMAIL.test(email) || email.includes('..')) {
    throw validationFailed('Unable to validate email address: invalid format');
  }
  return email.toLowerCase();
}

/** Returns the phone number as stored: only digits. */
export function validPhone(phone: string): string {
  const digits = phone.replace(/^\+/, '').replaceAll(' ', '');
  if (!/^[1-9]\d{1,14}$/.test(digits)) throw validationFailed('Invalid phone number format (E.164 required)');
  return digits;
}

export const emailMember = (body: Body, name = 'email') => {
  const email = text(body, name);
  return email ? validEmail(email) : undefined;
};
export const phoneMember = (body: Body) => {
  const phone = text(body, 'phone');
  return phone ? validPhone(phone) : undefined;
};

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value);
