/**
 * Verifies a token against the project's JWT secrets and keys. In: a tenant and a token. Out: the caller, or the reason
 * for a rejection. A verified token is cached until it expires or the tenant's keys change; the cache is bounded in
 * bytes.
 */
import { API_ROLES, type ApiRole } from '@slipway/installation';
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose';
import type { BackendTenant, Caller } from '../projects/tenant.js';
import { signingKeysOf } from './signing-keys.js';

/** Reason of a rejection. Each service formats it in its own way. */
export class TokenProblem {
  constructor(
    readonly kind: 'malformed' | 'algorithm' | 'signature' | 'expired' | 'not-yet-valid' | 'claims' | 'role',
    /** Role of the token, if that is the problem. */
    readonly role = '',
  ) {}
}

interface Remembered {
  tenant: BackendTenant;
  caller: Caller;
  /** Time of the token's expiry, in milliseconds since the epoch. */
  expires: number;
}

/** Seconds after its expiry in which a token is still accepted, because the clocks of other issuers may differ. */
const CLOCK_TOLERANCE_SECONDS = 30;
const TOLERANCE = { clockTolerance: CLOCK_TOLERANCE_SECONDS };
const MAX_TOKEN_LENGTH = 16 * 1024;

/** Maximum bytes of the cache of tokens: some 20,000 of auth's user tokens. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Bytes of a cache entry in addition to its texts, measured with Node 24. */
const ENTRY_BYTES = 512;
/** A text with a character beyond Latin-1 takes two bytes for each character. */
const bytesOf = (token: string, { caller }: Remembered) => token.length + 2 * caller.claims.length + ENTRY_BYTES;

export class Tokens {
  #remembered = new Map<string, Remembered>();
  /** Entries not used since the halves were swapped: a cheap approximation of least-recently-used order. */
  #older = new Map<string, Remembered>();

  /** Bytes of the entries used since the halves were swapped. */
  #bytes = 0;

  constructor(private readonly mostBytes = MOST_BYTES) {}

  /** Returns the caller of a cached token; undefined if the token is not cached. */
  remembered(tenant: BackendTenant, token: string): Caller | undefined {
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

  async verify(tenant: BackendTenant, token: string): Promise<Caller | TokenProblem> {
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

/** Verifies with the key's own algorithm. The token only chooses among the keys of the project. */
async function payloadOf(tenant: BackendTenant, token: string): Promise<JWTPayload> {
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

/** Returns undefined if another secret signed the token. */
function unlessOther(error: unknown): undefined {
  if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
}

function asymmetricKey(tenant: BackendTenant, alg: unknown, kid: unknown) {
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
