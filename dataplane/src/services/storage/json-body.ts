/** Reads a small JSON object from a request's body. */
import { JsonRefusal, ONE_TURN } from '@slipway/program';
import { decodeFor, readBody } from '../../http/request-body.js';
import type { ServiceRequest } from '../service.js';
import { invalidRequest } from './errors.js';

export async function jsonBody(request: ServiceRequest): Promise<Record<string, unknown>> {
  const bytes = await readBody(request, ONE_TURN.bytes);
  if (bytes.length === 0) return {};
  let body: unknown;
  try {
    body = decodeFor(request, bytes);
  } catch (error) {
    if (!(error instanceof JsonRefusal)) throw error;
    throw invalidRequest(error.reason === 'syntax' ? 'body must be JSON' : error.message);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalidRequest('body must be object');
  return body as Record<string, unknown>;
}

interface WholeNumbers {
  least: number;
  most: number;
  /** Default value. */
  otherwise?: number;
}

export function wholeNumber(value: unknown, field: string, { least, most, otherwise }: WholeNumbers): number {
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
