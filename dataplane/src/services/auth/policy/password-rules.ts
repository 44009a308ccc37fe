/** Rules for new passwords from the project's settings, with upstream's messages. */

import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import { validationFailed, weakPassword } from '../errors.js';

/** Maximum bytes of a password: bcrypt uses no more. */
const MAX_BYTES = 72;

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
