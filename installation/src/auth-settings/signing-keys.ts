/**
 * Asymmetric keys of a project from GOTRUE_JWT_KEYS, a JSON list of JWKs. The key with `sign` in key_ops signs new
 * tokens; standby and previous keys only verify. In: that text. Out: keys by id.
 */

import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { parseJson } from '@slipway/program';

export const JWT_KEYS = 'GOTRUE_JWT_KEYS';

export type Algorithm = 'ES256' | 'RS256';

export interface VerificationKey {
  algorithm: Algorithm;
  key: KeyObject;
}

export interface SigningKeys {
  signing: { id: string; algorithm: Algorithm; key: KeyObject } | undefined;
  verification: ReadonlyMap<string, VerificationKey>;
  /** JWKs with only public members. */
  published: object[];
}

type Jwk = JsonWebKey & { kid?: unknown; alg?: unknown; key_ops?: unknown };

const MIN_RSA_BITS = 2048;

/** Throws an Error that names the problem, never the content of a key. */
export function parseSigningKeys(text: string): SigningKeys {
  const list = parseList(text);
  const verification = new Map<string, VerificationKey>();
  const published: object[] = [];
  let signing: SigningKeys['signing'];
  list.forEach((jwk, at) => {
    const { id, algorithm, signs } = describe(jwk, `key ${at + 1}`);
    if (verification.has(id)) throw new Error(`two keys have the kid ${JSON.stringify(id)}`);
    const key = imported(() => createPublicKey({ key: jwk, format: 'jwk' }), `key ${at + 1}`);
    if (algorithm === 'RS256' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < MIN_RSA_BITS) {
      throw new Error(`key ${at + 1} has fewer than ${MIN_RSA_BITS} bits`);
    }
    verification.set(id, { algorithm, key });
    published.push({ ...key.export({ format: 'jwk' }), kid: id, alg: algorithm, use: 'sig', key_ops: ['verify'] });
    if (!signs) return;
    if (signing) throw new Error('more than one key has "sign" in key_ops');
    signing = { id, algorithm, key: imported(() => createPrivateKey({ key: jwk, format: 'jwk' }), `key ${at + 1}`) };
  });
  return { signing, verification, published };
}

function parseList(text: string): Jwk[] {
  let list: unknown;
  try {
    list = parseJson(text);
  } catch {
    throw new Error('it must be a JSON list of JWKs');
  }
  if (!Array.isArray(list)) throw new Error('it must be a JSON list of JWKs');
  // Shared secrets are ignored: the project's JWT secret has its own place.
  return (list as Jwk[]).filter((jwk) => jwk?.kty !== 'oct');
}

function describe(jwk: Jwk, which: string): { id: string; algorithm: Algorithm; signs: boolean } {
  const algorithm = jwk.kty === 'EC' && jwk.crv === 'P-256' ? 'ES256' : jwk.kty === 'RSA' ? 'RS256' : undefined;
  if (algorithm === undefined) throw new Error(`${which} is neither EC P-256 (ES256) nor RSA (RS256)`);
  if (jwk.alg !== undefined && jwk.alg !== algorithm) throw new Error(`${which} must have the alg ${algorithm}`);
  if (typeof jwk.kid !== 'string' || jwk.kid === '') throw new Error(`${which} has no kid`);
  const operations = jwk.key_ops ?? [];
  if (!Array.isArray(operations)) throw new Error(`the key_ops of ${which} must be a list`);
  return { id: jwk.kid, algorithm, signs: operations.includes('sign') };
}

/** Imports a key. The library's error may quote the key, so it is not reported. */
function imported(read: () => KeyObject, which: string): KeyObject {
  try {
    return read();
  } catch {
    throw new Error(`${which} is not a complete JWK`);
  }
}
