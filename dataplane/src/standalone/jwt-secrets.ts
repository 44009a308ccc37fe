/**
 * Keys that verify tokens, from upstream's variables: a secret, a JWK or several. In: the text. Out: shared secrets as
 * text, and asymmetric keys as the data plane reads them. Errors name the variable, never its value.
 */
import { parseJson } from '@slipway/program';

export interface JwtSecrets {
  /** Secret that signs new tokens, if this program signs any. */
  current: string;
  others: string[];
  /** JSON list of JWKs, not validated yet; undefined: none. */
  asymmetric: string | undefined;
}

interface Jwk {
  kty?: unknown;
  k?: unknown;
  key_ops?: unknown;
}

const MIN_LENGTH = 32;

/** Reads GOTRUE_JWT_KEYS and the secret beside them, which also verifies, and signs if no key does. */
export function fromKeys(keys: Jwk[], name: string, secret?: string): JwtSecrets {
  const shared = keys.filter(({ kty }) => kty === 'oct').map((jwk) => ({ text: textOf(jwk, name), signs: signs(jwk) }));
  const signing = shared.find(({ signs }) => signs)?.text;
  const texts = [signing, secret, ...shared.map(({ text }) => text)].filter((text) => text !== undefined);
  const [current, ...others] = new Set(texts);
  const asymmetric = keys.filter(({ kty }) => kty !== 'oct');
  return {
    current: current ?? '',
    others,
    asymmetric: asymmetric.length === 0 ? undefined : JSON.stringify(asymmetric),
  };
}

/** Reads a secret, one JWK, or a JWK set in PGRST_JWT_SECRET. */
export function fromSecret(text: string, name: string, isBase64: boolean): JwtSecrets {
  if (text.startsWith('{')) return fromKeys(keysOf(text, name), name);
  const secret = isBase64 ? utf8(Buffer.from(text, 'base64'), name) : text;
  if (secret.length < MIN_LENGTH) throw new Error(`${name} must be at least ${MIN_LENGTH} characters long`);
  return { current: secret, others: [], asymmetric: undefined };
}

/** A JWK, a JSON list of JWKs or a JWK set. */
export function keysOf(text: string, name: string): Jwk[] {
  let json: unknown;
  try {
    json = parseJson(text);
  } catch {
    json = undefined;
  }
  if (typeof json !== 'object' || json === null) throw new Error(`${name} holds no JWKs: its JSON can not be read`);
  const keys: unknown = Array.isArray(json) ? json : 'keys' in json ? json.keys : [json];
  if (!Array.isArray(keys) || keys.some((key) => typeof key !== 'object' || key === null)) {
    throw new Error(`${name} holds no list of JWKs`);
  }
  return keys as Jwk[];
}

const signs = ({ key_ops }: Jwk) => Array.isArray(key_ops) && key_ops.includes('sign');

function textOf({ k }: Jwk, name: string): string {
  if (typeof k !== 'string' || k === '') throw new Error(`${name} has a key of type oct without k`);
  return utf8(Buffer.from(k, 'base64url'), name);
}

function utf8(bytes: Buffer, name: string): string {
  const text = bytes.toString();
  if (!Buffer.from(text).equals(bytes)) throw new Error(`${name} has a secret that is no UTF-8 text`);
  return text;
}
