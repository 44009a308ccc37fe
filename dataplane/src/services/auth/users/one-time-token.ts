/**
 * Codes and links that prove an address: created, stored as a hash, looked up, used once. The hash is of address and
 * code together. It is stored in auth.one_time_tokens and in upstream's column of auth.users, and links contain it. It
 * is keyed with the project's secret, because otherwise a caller could compute links from guessed codes, and no limit
 * by address would count these guesses.
 */
import { createHmac, randomInt, randomUUID } from 'node:crypto';
import type { BackendTenant } from '../../../projects/tenant.js';
import type { Statement } from '../../../sql/pool.js';

/** Upstream's column for each kind. */
export type TokenType =
  | 'confirmation_token'
  | 'recovery_token'
  | 'email_change_token_new'
  | 'email_change_token_current'
  | 'phone_change_token'
  | 'reauthentication_token';

const SENT_AT: Readonly<Record<TokenType, string>> = {
  confirmation_token: 'confirmation_sent_at',
  recovery_token: 'recovery_sent_at',
  email_change_token_new: 'email_change_sent_at',
  email_change_token_current: 'email_change_sent_at',
  phone_change_token: 'phone_change_sent_at',
  reauthentication_token: 'reauthentication_sent_at',
};

export interface OneTimeToken {
  code: string;
  hash: string;
}

export const PKCE_PREFIX = 'pkce_';

type Secrets = Pick<BackendTenant, 'jwtSecret' | 'otherJwtSecrets'>;

/** Creates a token. `address` is the recipient. With PKCE, the link's hash has a prefix. */
export function newToken(secrets: Secrets, address: string, length: number, pkce = false): OneTimeToken {
  const { code, hash } = tokenOf(secrets, address, String(randomInt(10 ** length)).padStart(length, '0'));
  return { code, hash: (pkce ? PKCE_PREFIX : '') + hash };
}

export const tokenOf = ({ jwtSecret }: Secrets, address: string, code: string): OneTimeToken => ({
  code,
  hash: hashOf(jwtSecret, address, code),
});

/** Returns the hash under each secret, because the token may be older than the last rotation. */
export const hashesOf = ({ jwtSecret, otherJwtSecrets }: Secrets, address: string, code: string): string[] =>
  [jwtSecret, ...otherJwtSecrets].map((secret) => hashOf(secret, address, code));

const hashOf = (secret: string, address: string, code: string) =>
  createHmac('sha224', secret)
    // The separator prevents that characters move between address and code, which would evade the limit of an address.
    .update(`${address}\0${code}`)
    .digest('hex');

/** Stores a token, and replaces an earlier one of its kind. */
export function keepToken(userId: string, type: TokenType, hash: string, address: string): Statement[] {
  return [
    {
      name: `auth.token.${type}`,
      text: `update auth.users set ${type} = $2, ${SENT_AT[type]} = now(), updated_at = now() where id = $1::uuid`,
      values: [userId, hash],
    },
    { name: 'auth.token.keep', text: KEEP, values: [randomUUID(), userId, type, hash, address] },
  ];
}

const KEEP = `
insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to, created_at, updated_at)
values ($1::uuid, $2::uuid, $3::text::auth.one_time_token_type, $4, $5,
  now() at time zone 'utc', now() at time zone 'utc')
on conflict (user_id, token_type) do update set token_hash = excluded.token_hash, relates_to = excluded.relates_to,
  created_at = excluded.created_at, updated_at = excluded.updated_at`;

/**
 * Uses up a token. Returns the row of its user, or none for a second or late request. `hashes` covers tokens with and
 * without the prefix of PKCE, because a typed code does not show it. Locks the user first, as statements that delete
 * all tokens of a user do: otherwise the two could deadlock.
 */
export function useToken(hashes: readonly string[], types: readonly TokenType[], seconds: number): Statement {
  return { name: 'auth.token.use', text: USE, values: [JSON.stringify(hashes), JSON.stringify(types), seconds] };
}

const USE = `
with presented as (
  select id, user_id from auth.one_time_tokens
  where token_hash in (select jsonb_array_elements_text($1::text::jsonb))
    and token_type::text in (select jsonb_array_elements_text($2::text::jsonb))
    and created_at > (now() at time zone 'utc') - make_interval(secs => $3::double precision)
), owner as (
  select id from auth.users where id in (select user_id from presented) for no key update
)
delete from auth.one_time_tokens t using presented p, owner u
where t.id = p.id and t.user_id = u.id and t.token_hash in (select jsonb_array_elements_text($1::text::jsonb))
returning json_build_object('userId', t.user_id, 'type', t.token_type, 'address', t.relates_to)`;

export interface UsedToken {
  userId: string;
  type: TokenType;
  address: string;
}

/** Clears upstream's column of a used token. */
export const clearToken = (userId: string, type: TokenType): Statement => ({
  name: `auth.token.clear.${type}`,
  text: `update auth.users set ${type} = '', updated_at = now() where id = $1::uuid`,
  values: [userId],
});
