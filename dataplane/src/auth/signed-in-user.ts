/** The user whose access token the request carries: must exist, and so must the session that the token was issued for. */
import { bearerClaims, type Context, isUuid } from './context.js';
import { forbidden } from './errors.js';
import { jsonRows } from './session.js';
import { type User, userJson } from './user.js';

export interface SignedInUser {
  user: User;
  /** Null for tokens that were signed elsewhere with the project's secret. */
  sessionId: string | null;
  passwordHash: string | null;
}

interface Found extends SignedInUser {
  banned: boolean;
}

const SELECT_USER = `
select json_build_object('user', ${userJson('u')}, 'sessionId', s.id, 'passwordHash', u.encrypted_password,
  'banned', coalesce(u.banned_until > now(), false))
from auth.users u left join auth.sessions s on s.id = $2::uuid and s.user_id = u.id where u.id = $1::uuid`;

export async function signedInUser({ request, pool }: Context): Promise<SignedInUser> {
  const { sub, session_id: sessionId } = bearerClaims(request);
  if (!sub) throw forbidden('bad_jwt', 'invalid claim: missing sub claim');
  if (!isUuid(sub)) throw forbidden('bad_jwt', 'invalid claim: sub claim must be a UUID');
  if (sessionId && !isUuid(sessionId)) throw forbidden('bad_jwt', 'invalid claim: session_id claim must be a UUID');
  const values = [sub, sessionId ? String(sessionId) : null];
  const [result] = await pool.batch([{ name: 'auth.user', text: SELECT_USER, values }], { repeatable: true });
  const [found] = jsonRows<Found>(result);
  if (!found) throw forbidden('user_not_found', 'User from sub claim in JWT does not exist');
  if (sessionId && !found.sessionId) {
    throw forbidden('session_not_found', 'Session from session_id claim in JWT does not exist');
  }
  if (found.banned) throw forbidden('user_banned', 'User is banned');
  return found;
}
