/** How a route reads what the client sent: each member by its kind, refused in upstream's words when it isn't of it. */
import { readBody } from '../request-body.js';
import type { ServiceRequest } from '../service.js';
import { badRequest, validationFailed } from './errors.js';

export type Body = Record<string, unknown>;

const MAX_BODY_BYTES = 1024 * 1024;

/** The body as a JSON object. */
export async function readJson(request: ServiceRequest): Promise<Body> {
  return objectOf(await readText(request));
}

/** Where upstream asks for no body: none is an empty object. */
export async function readOptionalJson(request: ServiceRequest): Promise<Body> {
  const text = await readText(request);
  return text === '' ? {} : objectOf(text);
}

const readText = async ({ incoming }: ServiceRequest) => (await readBody(incoming, MAX_BODY_BYTES)).toString();

function objectOf(text: string): Body {
  const value = parse(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badRequest('bad_json', 'Could not parse request body as JSON: an object is expected');
  }
  // Neither text nor jsonb of Postgres can hold it.
  if (text.includes('\\u0000')) throw validationFailed('The request body holds \\u0000, which cannot be stored');
  return value as Body;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badRequest('bad_json', `Could not parse request body as JSON: ${(error as Error).message}`);
  }
}

export const readForm = async ({ incoming }: ServiceRequest) =>
  new URLSearchParams((await readBody(incoming, MAX_BODY_BYTES)).toString());

/** A member that must be a string where it is there; null is as if absent. */
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
