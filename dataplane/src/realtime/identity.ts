/** The identity of a channel, and the statement that sets it in Postgres for one transaction. */
import type { ApiRole } from '@slipway/crds';
import type { Tokens } from '../gateway/tokens.js';
import { TokenProblem } from '../gateway/tokens.js';
import type { Statement } from '../sql/pool.js';
import type { Caller, Tenant } from '../tenant.js';

export interface Identity extends Caller {
  /** Seconds since the epoch. */
  expires: number;
  /** The same for all of one role and claims: they are asked for a row once. */
  key: string;
}

/** A message of ours, in upstream's words: its code and what follows. */
export class Refused {
  constructor(
    readonly code: string,
    readonly message: string,
  ) {}
  /** The reason in the reply to a join. */
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

export async function verifyToken(tokens: Tokens, tenant: Tenant, token: string): Promise<Identity | Refused> {
  const verdict = tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));
  if (verdict instanceof TokenProblem) {
    const [code, words] = WORDS[verdict.kind];
    return new Refused(code, words);
  }
  return identityOf(verdict);
}

/**
 * Whether a token that was good is not signed by any key that the project has now; one that has expired is for its
 * channel to tell.
 */
export async function isRevoked(tokens: Tokens, tenant: Tenant, token: string): Promise<boolean> {
  const verdict = tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));
  return verdict instanceof TokenProblem && (verdict.kind === 'signature' || verdict.kind === 'algorithm');
}

export function identityOf({ role, claims }: Caller): Identity | Refused {
  const { exp, role: claimed } = JSON.parse(claims) as { exp?: unknown; role?: unknown };
  if (typeof exp !== 'number' || typeof claimed !== 'string') {
    return new Refused('InvalidJWTToken', 'Fields `role` and `exp` are required in JWT');
  }
  const identity = { role, claims, expires: exp, key: `${role} ${claims}` };
  return expiry(identity) ?? identity;
}

/** Set when it has expired. */
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
/** For what the platform itself reads and writes in schema realtime. */
export const SERVICE: Caller = { role: SERVICE_ROLE, claims: '{"role":"service_role"}' };
