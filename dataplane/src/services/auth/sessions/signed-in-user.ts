/** User of the request's access token. The user and the token's session must exist. */
import { isUuid } from '../body.js';
import { bearerClaims, type Context } from '../context.js';
import { forbidden, insufficientAal } from '../errors.js';
import { hasVerifiedFactor, type User, userJson } from '../users/user.js';
import { jsonRows } from './session.js';

export interface SignedInUser {
  user: User;
  /** Null for tokens that were signed elsewhere with the project's secret. */
  sessionId: string | null;
  /** True if a second factor verified both the session and this very token. */
  secondFactor: boolean;
  sessionAgeSeconds: number | null;
  passwordHash: string | null;
}

interface Found extends Omit<SignedInUser, 'secondFactor'> {
  banned: boolean;
  aal: string | null;
}

const SELECT_USER = `
select json_build_object('user', ${userJson('u')}, 'sessionId', s.id, 'passwordHash', u.encrypted_password,
  'aal', s.aal, 'sessionAgeSeconds', extract(epoch from now() - s.created_at),
  'banned', coalesce(u.banned_until > now(), false))
from auth.users u left join auth.sessions s on s.id = $2::uuid and s.user_id = u.id where u.id = $1::uuid`;

export async function signedInUser({ request, pool }: Context): Promise<SignedInUser> {
  const { sub, session_id: sessionId, aal: tokenAal } = bearerClaims(request);
  if (!sub) throw forbidden('bad_jwt', 'invalid claim: missing sub claim');
  if (!isUuid(sub)) throw forbidden('bad_jwt', 'invalid claim: sub claim must be a UUID');
  if (sessionId && !isUuid(sessionId)) throw forbidden('bad_jwt', 'invalid claim: session_id claim must be a UUID');
  const values = [sub, sessionId ? String(sessionId) : null];
  const [result] = await pool.batch([{ name: 'auth.user', text: SELECT_USER, values }], { repeatable: true });
  const [signedIn] = jsonRows<Found>(result);
  if (!signedIn) throw forbidden('user_not_found', 'User from sub claim in JWT does not exist');
  if (sessionId && !signedIn.sessionId) {
    throw forbidden('session_not_found', 'Session from session_id claim in JWT does not exist');
  }
  if (signedIn.banned) throw forbidden('user_banned', 'User is banned');
  const { banned: _, aal, ...rest } = signedIn;
  return { ...rest, secondFactor: tokenAal === 'aal2' && aal === 'aal2' };
}

/** Rejects a user with a second factor who has not used it. Required before changes of sign-in methods. */
export function requireSecondFactor({ user, secondFactor }: SignedInUser, status: number, message: string): void {
  if (hasVerifiedFactor(user) && !secondFactor) throw insufficientAal(status, message);
}
