/** Identity of a channel, and the statement that sets it in Postgres for one transaction. */

import type { ApiRole } from '@slipway/installation';
import { parseJson } from '@slipway/program';
import type { Tokens } from '../../identity/tokens.js';
import { TokenProblem } from '../../identity/tokens.js';
import type { BackendTenant, Caller } from '../../projects/tenant.js';
import type { Statement } from '../../sql/pool.js';

export interface Identity extends Caller {
  /** Time of the token's expiry, in seconds since the epoch. */
  expires: number;
  /** Equal for all identities of one role and claims, whose permission on a row is checked once. */
  key: string;
}

/** Error message in upstream's format: a code and a text. */
export class Refused {
  constructor(
    readonly code: string,
    readonly message: string,
  ) {}
  /** Reason in the reply to a join. */
  get reason(): string {
    return `${this.code}: ${this.message}`;
  }
}

const WORDS: Record<TokenProblem['kind'], [string, string]> = {
  malformed: ['MalformedJWT', 'The token provided is not a valid JWT'],
  algorithm: ['JwtSignatureError', 'Failed to validate JWT signature'],
  signature: ['JwtSignatureError', 'Failed to validate JWT signature'],
  expired: ['InvalidJWTToken', 'Token has expired'],
  'not-yet-valid': ['InvalidJWTToken', 'Token is not valid yet'],
  claims: ['InvalidJWTToken', 'Fields `role` and `exp` are required in JWT'],
  role: ['Unauthorized', 'The role of the token is not one of the API’s'],
};

export async function verifyToken(tokens: Tokens, tenant: BackendTenant, token: string): Promise<Identity | Refused> {
  const verdict = tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));
  if (verdict instanceof TokenProblem) {
    const [code, words] = WORDS[verdict.kind];
    return new Refused(code, words);
  }
  return identityOf(verdict);
}

/**
 * True if a formerly valid token is signed by none of the project's present keys. An expired token is handled by its
 * channel.
 */
export async function isRevoked(tokens: Tokens, tenant: BackendTenant, token: string): Promise<boolean> {
  const verdict = tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));
  return verdict instanceof TokenProblem && (verdict.kind === 'signature' || verdict.kind === 'algorithm');
}

export function identityOf({ role, claims }: Caller): Identity | Refused {
  const { exp, role: claimed } = parseJson(claims) as { exp?: unknown; role?: unknown };
  if (typeof exp !== 'number' || typeof claimed !== 'string') {
    return new Refused('InvalidJWTToken', 'Fields `role` and `exp` are required in JWT');
  }
  const identity = { role, claims, expires: exp, key: `${role} ${claims}` };
  return expiry(identity) ?? identity;
}

/** Returns the rejection of an expired token, or undefined. */
export function expiry({ expires }: Identity): Refused | undefined {
  const left = expires - Date.now() / 1000;
  if (left > 0) return undefined;
  return new Refused('InvalidJWTToken', `Token has expired ${Math.floor(-left)} seconds ago`);
}

const STATEMENT_TIMEOUT = '3s';
const ASSUME = `select set_config('role', $1, true), set_config('request.jwt.claims', $2, true),
  set_config('realtime.topic', $3, true), set_config('statement_timeout', '${STATEMENT_TIMEOUT}', true),
  set_config('search_path', 'public, extensions', true)`;

export const assume = ({ role, claims }: Caller, topic = ''): Statement => ({
  name: 'realtime-identity',
  text: ASSUME,
  values: [role, claims, topic],
});

const SERVICE_ROLE: ApiRole = 'service_role';
/** Identity for the platform's own reads and writes in schema realtime. */
export const SERVICE: Caller = { role: SERVICE_ROLE, claims: '{"role":"service_role"}' };
