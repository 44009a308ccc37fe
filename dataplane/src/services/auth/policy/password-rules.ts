/** Rules for new passwords from the project's settings, with upstream's messages. */

import { validationFailed, weakPassword } from '../errors.js';
import type { AuthConfig } from './config.js';

/** Maximum bytes of a password: bcrypt uses no more. */
const MAX_BYTES = 72;

/** Parses required characters: `abc:123` requires one of each set; `\:` is a literal colon. */
export function characterSets(text: string): string[] {
  return text
    .split(/(?<!\\):/)
    .map((set) => set.replaceAll('\\:', ':'))
    .filter((set) => set !== '');
}

/** Parses `491701234567:123456,…`: test numbers, which get no message, and their codes. */
export function testCodes(text: string): Map<string, string> {
  const pairs = text.split(',').map((pair) => pair.trim().split(':'));
  if (!pairs.every(([phone, code]) => /^\d+$/.test(phone ?? '') && /^\d+$/.test(code ?? ''))) {
    throw new Error('it must be a list such as 491701234567:123456');
  }
  return new Map(pairs as [string, string][]);
}

export function checkStrength(password: string, { minLength, requiredCharacters }: AuthConfig['passwords']): void {
  if (Buffer.byteLength(password) > MAX_BYTES) {
    throw validationFailed(`Password cannot be longer than ${MAX_BYTES} characters`);
  }
  const messages: string[] = [];
  const reasons: string[] = [];
  if (password.length < minLength) {
    messages.push(`Password should be at least ${minLength} characters.`);
    reasons.push('length');
  }
  const missing = requiredCharacters.some((set) => ![...set].some((character) => password.includes(character)));
  if (missing) {
    messages.push(`Password should contain at least one character of each: ${requiredCharacters.join(', ')}.`);
    reasons.push('characters');
  }
  if (reasons.length > 0) throw weakPassword(messages.join(' '), reasons);
}
