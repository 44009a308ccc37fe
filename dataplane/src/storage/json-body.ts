/** Reads a small JSON object from a request's body. */
import type { IncomingMessage } from 'node:http';
import { readBody } from '../request-body.js';
import { invalidRequest } from './errors.js';

const MAX_BYTES = 1024 * 1024;

export async function jsonBody(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const bytes = await readBody(incoming, MAX_BYTES);
  if (bytes.length === 0) return {};
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString());
  } catch {
    throw invalidRequest('body must be JSON');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalidRequest('body must be object');
  return body as Record<string, unknown>;
}

export function wholeNumber(value: unknown, field: string, least: number, most: number, otherwise?: number): number {
  if (value === undefined && otherwise !== undefined) return otherwise;
  const number = typeof value === 'string' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most) {
    throw invalidRequest(`${field} must be an integer from ${least} to ${most}`);
  }
  return number;
}

export function optionalText(value: unknown, field: string, otherwise = ''): string {
  if (value === undefined || value === null) return otherwise;
  if (typeof value !== 'string' || value.includes('\0')) throw invalidRequest(`${field} must be string`);
  return value;
}
