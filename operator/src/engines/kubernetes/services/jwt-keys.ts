/**
 * Converts a project's JWT secrets to the form that auth and rest read. Pure. All three secrets of a rotation verify
 * tokens, and one signs them. In: the secrets, and the owner's own signing keys. Out: JSON for GOTRUE_JWT_KEYS and
 * PGRST_JWT_SECRET.
 */

import { createHash } from 'node:crypto';
import { parseJson } from '@slipway/program';

export interface JwtSecrets {
  current: string;
  next?: string | undefined;
  previous?: string | undefined;
}

type Jwk = Record<string, unknown>;

/** The private members of a JWK. */
const PRIVATE_PARTS = new Set(['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth']);

/** Returns the key id by which a token names the secret that signed it. */
export const keyIdOf = (secret: string) => createHash('sha256').update(secret).digest('hex').slice(0, 16);

/** Returns a JSON array for auth, in which exactly one key signs: the owner's, if one of them signs. */
export function authKeys(secrets: JwtSecrets, ownKeys: string | undefined): string {
  const own = parse(ownKeys);
  const ownSigns = own.some(({ key_ops }) => Array.isArray(key_ops) && key_ops.includes('sign'));
  const shared = sharedKeys(secrets).map((key, index) => ({
    ...key,
    key_ops: index === 0 && !ownSigns ? ['sign', 'verify'] : ['verify'],
  }));
  return JSON.stringify([...own, ...shared]);
}

/** Returns a JWK set for rest, which only verifies. */
export function restKeys(secrets: JwtSecrets, ownKeys: string | undefined): string {
  const own = parse(ownKeys).map(publicPart);
  const shared = sharedKeys(secrets).map((key) => ({ ...key, key_ops: ['verify'] }));
  return JSON.stringify({ keys: [...shared, ...own] });
}

/** Returns the keys of the secrets, the current one first, without duplicates. */
function sharedKeys({ current, next, previous }: JwtSecrets): Jwk[] {
  const secrets = new Set([current, next, previous].filter((secret) => secret !== undefined && secret !== ''));
  return [...secrets].map((secret) => ({
    kty: 'oct',
    kid: keyIdOf(secret as string),
    alg: 'HS256',
    k: Buffer.from(secret as string).toString('base64url'),
  }));
}

/**
 * Parses a list of keys. Any other value counts as absent, as everywhere. The settings of auth report it to the owner.
 */
function parse(ownKeys: string | undefined): Jwk[] {
  try {
    const keys: unknown = parseJson(ownKeys ?? '[]');
    return Array.isArray(keys) ? keys.filter((key) => typeof key === 'object' && key !== null) : [];
  } catch {
    return [];
  }
}

const publicPart = (key: Jwk): Jwk => ({
  ...Object.fromEntries(Object.entries(key).filter(([name]) => !PRIVATE_PARTS.has(name))),
  key_ops: ['verify'],
});
