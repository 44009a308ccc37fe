/**
 * Statements that change a user, one function for each kind of change. The routes of users and of administrators share
 * them.
 */
import type { Pool, Statement } from '../../../sql/pool.js';
import { AuthError } from '../errors.js';
import { jsonRows } from '../sessions/session.js';
import { presentable, type User, userJson } from './user.js';

const SELECT_USER = `select ${userJson('u')} from auth.users u where u.id = $1::uuid`;

/** Runs `statements` in one transaction, and returns the changed user. */
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

/** Sets the password. Ends all sessions but `keptSession`, and revokes every open code, link and flow of the user. */
export function setPassword(id: string, hash: string, keptSession: string | null): Statement[] {
  return [
    {
      text: `
update auth.users set encrypted_password = $2, confirmation_sent_at = null, recovery_sent_at = null,
  email_change_sent_at = null, phone_change_sent_at = null, reauthentication_sent_at = null, updated_at = now()
where id = $1::uuid`,
      values: [id, hash],
    },
    ...forgetTokens(id),
    ...endSessions(id, keptSession),
  ];
}

/**
 * Ends sessions. Locks the user first, as statements that create a session do, so that it also ends a session in
 * creation.
 */
export const endSessions = (id: string, keptSession: string | null = null): Statement[] => [
  { name: 'auth.user.lock', text: 'select from auth.users where id = $1::uuid for no key update', values: [id] },
  {
    name: 'auth.sessions.end',
    text: 'delete from auth.sessions where user_id = $1::uuid and id is distinct from $2::uuid',
    values: [id, keptSession],
  },
];

/** Revokes every code and link that was sent before. A half-confirmed change of address starts again. */
export const forgetTokens = (id: string): Statement[] => [
  {
    text: `
update auth.users set confirmation_token = '', recovery_token = '', email_change_token_current = '',
  email_change_token_new = '', phone_change_token = '', reauthentication_token = '', email_change_confirm_status = 0
where id = $1::uuid`,
    values: [id],
  },
  { text: 'delete from auth.one_time_tokens where user_id = $1::uuid', values: [id] },
];

/** Sets a verified address. A user without an identity for it gets one, and is no longer anonymous. */
export const setEmail = (id: string, email: string) => setAddress(id, 'email', email);
export const setPhone = (id: string, phone: string) => setAddress(id, 'phone', phone);

function setAddress(id: string, kind: 'email' | 'phone', address: string): Statement[] {
  return [
    {
      text: `
update auth.users set ${kind} = $2, ${kind}_change = '', is_anonymous = false, updated_at = now() where id = $1::uuid`,
      values: [id, address],
    },
    {
      text: `
insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
select u.id::text, u.id,
  jsonb_build_object('sub', u.id, '${kind}', $2::text, 'email_verified', false, 'phone_verified', false)
    || jsonb_build_object('${kind}_verified', true), '${kind}', now(), now(), now()
from auth.users u where u.id = $1::uuid
on conflict (provider_id, provider) do update set
  identity_data = auth.identities.identity_data || jsonb_build_object('${kind}', $2::text, '${kind}_verified', true),
  updated_at = now()`,
      values: [id, address],
    },
    setProviders(id),
    ...forgetTokens(id),
  ];
}

/** Updates app_metadata, which lists the user's providers. */
export const setProviders = (id: string): Statement => ({
  text: `
update auth.users u set updated_at = now(), raw_app_meta_data = coalesce(u.raw_app_meta_data, '{}') || coalesce((
  select jsonb_build_object('provider', (array_agg(i.provider order by i.created_at, i.id))[1],
    'providers', jsonb_agg(i.provider order by i.created_at, i.id))
  from auth.identities i where i.user_id = u.id having count(*) > 0), '{}')
where u.id = $1::uuid`,
  values: [id],
});

export const setUserMetadata = (id: string, changes: Record<string, unknown>) =>
  mergeMetadata(id, 'raw_user_meta_data', changes);
export const setAppMetadata = (id: string, changes: Record<string, unknown>) =>
  mergeMetadata(id, 'raw_app_meta_data', changes);

/** Merges metadata: null members are removed, others replaced. */
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

/** Records a verified address also in the user's metadata and identity. */
export const confirm = (id: string, kind: 'email' | 'phone'): Statement[] => [
  {
    text: `
update auth.users set ${kind}_confirmed_at = coalesce(${kind}_confirmed_at, now()), updated_at = now(),
  raw_user_meta_data = case when raw_user_meta_data ? '${kind}_verified'
    then raw_user_meta_data || '{"${kind}_verified": true}' else raw_user_meta_data end
where id = $1::uuid`,
    values: [id],
  },
  {
    text: `
update auth.identities set identity_data = identity_data || '{"${kind}_verified": true}', updated_at = now()
where user_id = $1::uuid and provider = '${kind}'`,
    values: [id],
  },
];

export const setBan = (id: string, until: Date | null): Statement => ({
  text: 'update auth.users set banned_until = $2::timestamptz, updated_at = now() where id = $1::uuid',
  values: [id, until],
});
