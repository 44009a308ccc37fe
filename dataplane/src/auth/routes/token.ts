/** POST /token: a session for a password, or the next tokens of a session for its refresh token. */
import { randomUUID } from 'node:crypto';
import { type Answer, type Context, deviceOf, readJson, text } from '../context.js';
import { badRequest, invalidCredentials, tooManyRequests, validationFailed } from '../errors.js';
import { verifyPassword } from '../passwords.js';
import { networkOf } from '../rate-limit.js';
import { exchange } from '../refresh.js';
import { AUDIENCE, grant, jsonRows, newRefreshToken, type SignedIn, signIn } from '../session.js';

export async function token(context: Context): Promise<Answer> {
  const grantType = new URLSearchParams(context.request.query).get('grant_type');
  if (grantType === 'refresh_token') return refreshGrant(context);
  if (grantType === 'password') return passwordGrant(context);
  throw badRequest('invalid_credentials', 'unsupported_grant_type');
}

async function refreshGrant(context: Context): Promise<Answer> {
  const { request, pool } = context;
  const refreshToken = text(await readJson(request), 'refresh_token');
  if (!refreshToken) throw validationFailed('refresh_token required');
  try {
    const exchanged = await exchange(pool, refreshToken, deviceOf(request));
    return { status: 200, body: grant(request.tenant, exchanged, exchanged.refreshToken) };
  } catch (error) {
    // Who holds a good token isn't guessing: only failures count as attempts.
    takeAttempt(context);
    throw error;
  }
}

interface Candidate {
  id: string;
  passwordHash: string | null;
  banned: boolean;
  confirmed: boolean;
}

const SELECT_CANDIDATE = `
select json_build_object('id', u.id, 'passwordHash', u.encrypted_password,
  'banned', coalesce(u.banned_until > now(), false), 'confirmed', u.email_confirmed_at is not null)
from auth.users u where u.email = $1 and u.is_sso_user = false and u.aud = $2 and u.deleted_at is null`;

async function passwordGrant(context: Context): Promise<Answer> {
  takeAttempt(context);
  const { request, pool } = context;
  const { email, password } = credentials(await readJson(request));
  const found = await pool.batch([
    { name: 'auth.candidate', text: SELECT_CANDIDATE, values: [email.toLowerCase(), AUDIENCE] },
  ]);
  const [candidate] = jsonRows<Candidate>(found[0]);
  const matches = await verifyPassword(password, candidate?.passwordHash);
  if (!candidate || !matches) throw invalidCredentials();
  if (candidate.banned) throw badRequest('user_banned', 'User is banned');
  if (!candidate.confirmed) throw badRequest('email_not_confirmed', 'Email not confirmed');
  const { id: userId, passwordHash } = candidate;
  const refreshToken = newRefreshToken();
  const session = { id: randomUUID(), userId, passwordHash, refreshToken, device: deviceOf(request) };
  const [signedIn] = jsonRows<SignedIn>((await pool.batch(signIn(session))).at(-1));
  if (!signedIn) throw invalidCredentials();
  return { status: 200, body: grant(request.tenant, signedIn, refreshToken) };
}

function credentials(body: Record<string, unknown>) {
  const email = text(body, 'email');
  const phone = text(body, 'phone');
  if (email && phone) {
    throw validationFailed('Only an email address or phone number should be provided on login.');
  }
  if (phone) throw badRequest('phone_provider_disabled', 'Phone logins are disabled');
  if (!email) throw validationFailed('missing email or phone');
  return { email, password: text(body, 'password') ?? '' };
}

export function takeAttempt({ request, attempts }: Context): void {
  const network = networkOf(request.incoming.socket.remoteAddress ?? '');
  if (!attempts.take(`${request.tenant.ref} ${network}`)) throw tooManyRequests();
}
