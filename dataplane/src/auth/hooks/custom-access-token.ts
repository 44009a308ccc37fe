/**
 * The hook that may add to, and take from, the claims of a new access token. Those that our own checks rely on must
 * stay.
 */
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import type { AccessClaims } from '../grant.js';
import { invokeHook } from './invoke.js';

const REQUIRED = ['aud', 'exp', 'iat', 'sub', 'email', 'phone', 'role', 'aal', 'session_id', 'is_anonymous'] as const;
/** A hook that could name another user, session or project would undo what was just checked. */
const KEPT = ['iss', 'sub', 'session_id'] as const;

export async function customClaims(context: Context, claims: AccessClaims, method: string): Promise<object> {
  const input = { user_id: claims.sub, claims, authentication_method: method };
  const { claims: changed } = (await invokeHook(context, 'custom_access_token', input)) ?? {};
  if (typeof changed !== 'object' || changed === null || Array.isArray(changed)) {
    throw invalid('claims');
  }
  const missing = REQUIRED.find((name) => !Object.hasOwn(changed, name));
  if (missing !== undefined) throw invalid(missing);
  return { ...changed, ...Object.fromEntries(KEPT.map((name) => [name, claims[name]])) };
}

const invalid = (name: string) =>
  new AuthError(500, 'unexpected_failure', `output claims do not conform to the expected schema: ${name} is required`);
