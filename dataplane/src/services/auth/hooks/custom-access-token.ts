/** The hook that may add and remove claims of a new access token, except those that the platform's own checks need. */
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import type { AccessClaims } from '../sessions/grant.js';
import { invokeHook } from './invoke.js';

const REQUIRED = ['aud', 'exp', 'iat', 'sub', 'email', 'phone', 'role', 'aal', 'session_id', 'is_anonymous'] as const;
/** Claims that a hook can't change, because they identify the user, session and project that were just checked. */
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
