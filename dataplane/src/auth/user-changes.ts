/** Statements that change a user, each for one reason; the user and administrators change the same things by the same ones. */
import type { Pool, Statement } from '../sql/pool.js';
import { AuthError } from './errors.js';
import { jsonRows } from './session.js';
import { presentable, type User, userJson } from './user.js';

const SELECT_USER = `select ${userJson('u')} from auth.users u where u.id = $1::uuid`;

/** Runs `statements` as one, and reads the user after them. */
export async function readUser(
  pool: Pool,
  id: string,
  statements: Statement[] = [],
  translate: (error: unknown) => never = rethrow,
): Promise<User> {
  const results = await pool
    .batch([...statements, { name: 'auth.read-user', text: SELECT_USER, values: [id] }])
    .catch(translate);
  const [user] = jsonRows<User>(results.at(-1));
  if (!user) throw new AuthError(404, 'user_not_found', 'User not found');
  return presentable(user);
}

const rethrow = (error: unknown): never => {
  throw error;
};

/** What a stranger who knew the old password had under way ends with it, all sessions but `keptSession` included. */
export function setPassword(id: string, hash: string, keptSession: string | null): Statement[] {
  return [
    { text: SET_PASSWORD, values: [id, hash] },
    { text: 'delete from auth.one_time_tokens where user_id = $1::uuid', values: [id] },
    {
      text: 'delete from auth.sessions where user_id = $1::uuid and id is distinct from $2::uuid',
      values: [id, keptSession],
    },
  ];
}

const SET_PASSWORD = `
update auth.users set encrypted_password = $2, confirmation_token = '', confirmation_sent_at = null,
  recovery_token = '', recovery_sent_at = null, email_change_token_current = '', email_change_token_new = '',
  email_change_sent_at = null, phone_change_token = '', phone_change_sent_at = null, reauthentication_token = '',
  reauthentication_sent_at = null, updated_at = now()
where id = $1::uuid`;

/** A user without an identity for their address gets one. */
export const setEmail = (id: string, email: string) => setAddress(id, 'email', email);
export const setPhone = (id: string, phone: string) => setAddress(id, 'phone', phone);

function setAddress(id: string, kind: 'email' | 'phone', address: string): Statement[] {
  return [
    {
      text: `update auth.users set ${kind} = $2, updated_at = now() where id = $1::uuid`,
      values: [id, address],
    },
    {
      text: `
insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
select u.id::text, u.id, jsonb_build_object('sub', u.id, '${kind}', $2::text, '${kind}_verified', true), '${kind}',
  now(), now(), now()
from auth.users u where u.id = $1::uuid
on conflict (provider_id, provider) do update set
  identity_data = auth.identities.identity_data || jsonb_build_object('${kind}', $2::text), updated_at = now()`,
      values: [id, address],
    },
  ];
}

export const setUserMetadata = (id: string, changes: Record<string, unknown>) =>
  mergeMetadata(id, 'raw_user_meta_data', changes);
export const setAppMetadata = (id: string, changes: Record<string, unknown>) =>
  mergeMetadata(id, 'raw_app_meta_data', changes);

/** Members that are null are removed, all others put over what is there. */
function mergeMetadata(id: string, column: string, changes: Record<string, unknown>): Statement {
  const removed = Object.keys(changes).filter((name) => changes[name] === null);
  return {
    text: `
update auth.users set ${column} = (coalesce(${column}, '{}') || $2::text::jsonb)
  - array(select jsonb_array_elements_text($3::text::jsonb)), updated_at = now()
where id = $1::uuid`,
    values: [id, JSON.stringify(changes), JSON.stringify(removed)],
  };
}

export const setRole = (id: string, role: string): Statement => ({
  text: 'update auth.users set role = $2, updated_at = now() where id = $1::uuid',
  values: [id, role],
});

export const confirm = (id: string, kind: 'email' | 'phone'): Statement => ({
  text: `
update auth.users set ${kind}_confirmed_at = coalesce(${kind}_confirmed_at, now()), updated_at = now()
where id = $1::uuid`,
  values: [id],
});

export const setBan = (id: string, until: Date | null): Statement => ({
  text: 'update auth.users set banned_until = $2::timestamptz, updated_at = now() where id = $1::uuid',
  values: [id, until],
});
