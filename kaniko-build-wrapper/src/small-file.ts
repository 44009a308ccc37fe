/** Reads a small regular file of a tenant's sources: not a link or a pipe, and up to a size limit. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import path from 'node:path';
import { parseJson } from '@slipway/program';
import { Refused } from './request.js';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const BYTES = 1024 * 1024;

/** Returns the first MiB of a file, or undefined if there is no such regular file. */
export function smallFile(folder: string, name: string): string | undefined {
  let file: number;
  try {
    file = openSync(path.join(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const { size, isRegular } = { size: fstatSync(file).size, isRegular: fstatSync(file).isFile() };
    if (!isRegular) return undefined;
    const bytes = Buffer.alloc(Math.min(size, BYTES));
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(file);
  }
}

/**
 * Returns the object of a JSON file, or undefined if there is no such file. Throws Refused if the JSON is not an
 * object.
 */
export function smallObject(folder: string, name: string): Record<string, unknown> | undefined {
  const text = smallFile(folder, name);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = parseJson(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new Refused(`${name} cannot be read: ${(error as Error).message}.`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Refused(`${name} is not a JSON object.`);
  }
  return value as Record<string, unknown>;
}
