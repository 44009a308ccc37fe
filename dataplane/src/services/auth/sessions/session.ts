/** Statements that create and read a session. */
import { randomBytes } from 'node:crypto';
import { type JsonBound, ONE_TURN, parseJson } from '@slipway/program';
import { STEP_BYTES, type Steps } from '../../../bounds/turns.js';
import type { Result, Statement } from '../../../sql/pool.js';
import { AuthError, validationFailed } from '../errors.js';
import { type User, userJson } from '../users/user.js';

export interface Session {
  id: string;
  aal: string | null;
  amr: { method: string; timestamp: number }[];
}

/** Device of the caller, which sessions store for the user's information. */
export interface Device {
  address: string | null;
  userAgent: string;
}

export interface SignedIn {
  user: User;
  session: Session;
}

export const AUDIENCE = 'authenticated';

/** SQL for the session in row `s` of auth.sessions. */
export const sessionJson = (s: string) => `json_build_object('id', ${s}.id, 'aal', ${s}.aal, 'amr', (
  select coalesce(json_agg(json_build_object(
    'method', c.authentication_method, 'timestamp', extract(epoch from c.updated_at)::bigint
  ) order by c.created_at desc), '[]')
  from auth.mfa_amr_claims c where c.session_id = ${s}.id))`;

export const newRefreshToken = () => randomBytes(16).toString('base64url');

export interface NewSession {
  id: string;
  userId: string;
  /**
   * Hash that the password was checked against: if it has changed, no session is created. Undefined: the sign-in needed
   * no password.
   */
  passwordHash?: string | null | undefined;
  /** Authentication method: `password`, `otp`, `oauth`, `anonymous`. */
  method: string;
  refreshToken: string;
  device: Device;
}

/**
 * Returns statements that sign a user in. The row of the last one is a SignedIn; it is missing if the user was deleted.
 */
export function signIn({ id, userId, passwordHash, method, refreshToken, device }: NewSession): Statement[] {
  const checked = passwordHash !== undefined;
  return [
    {
      name: 'auth.sign-in.session',
      text: INSERT_SESSION,
      values: [id, userId, passwordHash ?? null, device.userAgent, device.address, checked],
    },
    { name: 'auth.sign-in.token', text: INSERT_TOKEN, values: [id, refreshToken] },
    { name: 'auth.sign-in.method', text: INSERT_METHOD, values: [id, method] },
    { name: 'auth.sign-in.time', text: UPDATE_SIGN_IN_TIME, values: [id] },
    selectSignedIn(id),
  ];
}

export const selectSignedIn = (id: string): Statement => ({
  name: 'auth.sign-in.read',
  text: SELECT_SIGNED_IN,
  values: [id],
});

/**
 * Inserts a session, unless the user was banned or deleted. The statement locks the user: otherwise a session that is
 * created during a password change would neither see the new password nor end with the old one.
 */
const INSERT_SESSION = `
insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip)
select $1::uuid, u.id, now(), now(), 'aal1', $4, $5::text::inet from auth.users u
where u.id = $2::uuid and (not $6::boolean or u.encrypted_password is not distinct from $3::text)
  and u.deleted_at is null and coalesce(u.banned_until <= now(), true)
for no key update of u`;

const INSERT_TOKEN = `
insert into auth.refresh_tokens (instance_id, token, user_id, session_id, revoked, created_at, updated_at)
select '00000000-0000-0000-0000-000000000000', $2, s.user_id::text, s.id, false, now(), now()
from auth.sessions s where s.id = $1::uuid`;

const INSERT_METHOD = `
insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
select gen_random_uuid(), s.id, now(), now(), $2 from auth.sessions s where s.id = $1::uuid`;

const UPDATE_SIGN_IN_TIME = `
update auth.users u set last_sign_in_at = now(), updated_at = now()
from auth.sessions s where s.id = $1::uuid and u.id = s.user_id`;

const SELECT_SIGNED_IN = `
select json_build_object('user', ${userJson('u')}, 'session', ${sessionJson('s')})
from auth.sessions s join auth.users u on u.id = s.user_id where s.id = $1::uuid`;

/** Limits of a user as JSON. Auth's requests are far smaller, but the owner may write metadata with SQL. */
const MOST_OF_ROW: JsonBound = { ...ONE_TURN, depth: 128 };
const MOST_OF_PAGE = 8 * 1024 * 1024;

/** Parses the rows of a statement that selects one JSON value each, for few rows. */
export const jsonRows = <T>(result: Result | undefined): T[] =>
  result?.rows.map(([value]) => jsonValue(value) as T) ?? [];

/** Parses a page of rows one after another, and calls `onRow` with each, so that not all are in memory. */
export function* jsonRowsOfPage<T>({ rows }: Result, onRow: (row: T) => void): Steps<void> {
  const bytes = rows.reduce((sum, [value]) => sum + (value?.length ?? 0), 0);
  if (bytes > MOST_OF_PAGE) throw validationFailed(`The users of the page are more than ${MOST_OF_PAGE} bytes as JSON`);
  let left = STEP_BYTES;
  for (const [value] of rows) {
    if (left <= 0) {
      yield;
      left = STEP_BYTES;
    }
    onRow(jsonValue(value) as T);
    left -= value?.length ?? 0;
  }
}

function jsonValue(value: Buffer | null | undefined): unknown {
  try {
    return parseJson(value ?? 'null', MOST_OF_ROW);
  } catch (error) {
    throw new AuthError(500, 'unexpected_failure', `A user's metadata can't be read: ${(error as Error).message}`);
  }
}
