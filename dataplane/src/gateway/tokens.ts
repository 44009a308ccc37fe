/**
 * Verifies a token against the project's JWT secrets and keys. In: a tenant and a token. Out: the caller, or the reason
 * for a rejection. A verified token is cached until it expires or the tenant's keys change; the cache is bounded in
 * bytes.
 */
import { API_ROLES, type ApiRole } from '@slipway/crds';
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose';
import { signingKeysOf } from '../signing-keys.js';
import type { Caller, Tenant } from '../tenant.js';

/** Why a token was refused; each service says it in its own words. */
export class TokenProblem {
  constructor(
    readonly kind: 'malformed' | 'algorithm' | 'signature' | 'expired' | 'not-yet-valid' | 'claims' | 'role',
    /** The role that was asked for, where that is the problem. */
    readonly role = '',
  ) {}
}

interface Remembered {
  tenant: Tenant;
  caller: Caller;
  /** Milliseconds since the epoch. */
  expires: number;
}

/** Clocks of those who sign tokens elsewhere may differ by this much from ours. */
const CLOCK_TOLERANCE_SECONDS = 30;
const TOLERANCE = { clockTolerance: CLOCK_TOLERANCE_SECONDS };
const MAX_TOKEN_LENGTH = 16 * 1024;

/** Some 20,000 tokens of users as auth makes them. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Bytes that Node 24 was measured to use for an entry beside its texts. */
const ENTRY_BYTES = 512;
/** Texts with a character beyond Latin-1 take two bytes for each. */
const bytesOf = (token: string, { caller }: Remembered) => token.length + 2 * caller.claims.length + ENTRY_BYTES;

export class Tokens {
  #remembered = new Map<string, Remembered>();
  /** The half that was not used since the last turn: a cheap stand-in for exact least-recently-used order. */
  #older = new Map<string, Remembered>();

  /** Bytes of the half that was used since the last turn. */
  #bytes = 0;

  constructor(private readonly mostBytes = MOST_BYTES) {}

  /** The caller of a token that was verified before; undefined says nothing about the token. */
  remembered(tenant: Tenant, token: string): Caller | undefined {
    let entry = this.#remembered.get(token);
    if (entry === undefined) {
      entry = this.#older.get(token);
      if (entry === undefined) return undefined;
      this.#remember(token, entry);
    }
    if (entry.tenant !== tenant) return undefined;
    if (entry.expires > Date.now()) return entry.caller;
    this.#remembered.delete(token);
    this.#older.delete(token);
    return undefined;
  }

  async verify(tenant: Tenant, token: string): Promise<Caller | TokenProblem> {
    if (token.length > MAX_TOKEN_LENGTH) return new TokenProblem('malformed');
    try {
      const payload = await payloadOf(tenant, token);
      const role = payload.role ?? 'anon';
      if (!isApiRole(role)) return new TokenProblem('role', typeof role === 'string' ? role : JSON.stringify(role));
      const caller: Caller = { role, claims: JSON.stringify(payload) };
      const expires = payload.exp === undefined ? Infinity : (payload.exp + CLOCK_TOLERANCE_SECONDS) * 1000;
      this.#remember(token, { tenant, caller, expires });
      return caller;
    } catch (error) {
      return problemOf(error);
    }
  }

  #remember(token: string, entry: Remembered): void {
    const bytes = bytesOf(token, entry);
    if (this.#bytes + bytes > this.mostBytes / 2) {
      this.#older = this.#remembered;
      this.#remembered = new Map();
      this.#bytes = 0;
    }
    this.#bytes += bytes;
    this.#remembered.set(token, entry);
  }
}

/** A key has one algorithm, decided by us: what a token says of itself only chooses among the keys of the project. */
async function payloadOf(tenant: Tenant, token: string): Promise<JWTPayload> {
  const { alg, kid } = headerOf(token);
  if (alg !== 'HS256') {
    const { algorithm, key } = asymmetricKey(tenant, alg, kid);
    return (await jwtVerify(token, key, { algorithms: [algorithm], ...TOLERANCE })).payload;
  }
  for (const secret of [tenant.jwtSecret, ...tenant.otherJwtSecrets]) {
    const payload = await signedBy(secret, token).catch(unlessOther);
    if (payload !== undefined) return payload;
  }
  throw new errors.JWSSignatureVerificationFailed();
}

async function signedBy(secret: string, token: string): Promise<JWTPayload> {
  const key = new TextEncoder().encode(secret);
  return (await jwtVerify(token, key, { algorithms: ['HS256'], ...TOLERANCE })).payload;
}

/** Undefined: it was not this secret that signed it. */
function unlessOther(error: unknown): undefined {
  if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
}

function asymmetricKey(tenant: Tenant, alg: unknown, kid: unknown) {
  const known = typeof kid === 'string' ? signingKeysOf(tenant).verification.get(kid) : undefined;
  if (known === undefined) {
    if (alg === 'ES256' || alg === 'RS256') throw new errors.JWSSignatureVerificationFailed();
    throw new errors.JOSEAlgNotAllowed();
  }
  if (known.algorithm !== alg) throw new errors.JOSEAlgNotAllowed();
  return known;
}

function headerOf(token: string) {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw new errors.JWSInvalid();
  }
}

const isApiRole = (role: unknown): role is ApiRole => (API_ROLES as readonly unknown[]).includes(role);

function problemOf(error: unknown): TokenProblem {
  if (error instanceof errors.JWTExpired) return new TokenProblem('expired');
  if (error instanceof errors.JWTClaimValidationFailed) {
    return new TokenProblem(error.claim === 'nbf' ? 'not-yet-valid' : 'claims');
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) return new TokenProblem('signature');
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return new TokenProblem('algorithm');
  }
  if (error instanceof errors.JOSEError) return new TokenProblem('malformed');
  throw error;
}
