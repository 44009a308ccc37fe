/**
 * Exchanges a refresh token for the next, in one round trip. A separate statement first locks the session's row, so
 * that the second of two concurrent exchanges sees the result of the first, and returns the same new token.
 */

import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import type { Pool, Statement } from '../../../sql/pool.js';
import { badRequest } from '../errors.js';
import { userJson } from '../users/user.js';
import { type Device, jsonRows, newRefreshToken, type SignedIn, sessionJson } from './session.js';

interface Exchange extends SignedIn {
  outcome: 'exchanged' | 'current' | keyof typeof REFUSALS;
  refreshToken: string | null;
}

const LOCK = `
select from auth.sessions s join auth.refresh_tokens t on t.session_id = s.id where t.token = $1
for no key update of s`;

/**
 * Exchanges the newest token of a session. An older token returns its direct successor if that is the newest token, or
 * another exchange within the reuse interval. Otherwise it counts as stolen, and every token of the session is revoked.
 * A session whose tokens were all revoked stays revoked.
 */
const EXCHANGE = `
with presented as (
  select t.id, t.token, t.revoked, t.updated_at, t.session_id, s.user_id, s.not_after, s.created_at,
    coalesce(s.refreshed_at at time zone 'utc', s.created_at) as refreshed_at
  from auth.refresh_tokens t join auth.sessions s on s.id = t.session_id where t.token = $1
), newest as (
  select t.token, t.parent from auth.refresh_tokens t, presented p
  where t.session_id = p.session_id and t.revoked = false order by t.id desc limit 1
), verdict as (
  select p.*, n.token as newest, case
    when u.banned_until > now() then 'banned'
    when p.not_after < now() or p.created_at + make_interval(secs => $6::double precision) < now() then 'expired'
    when p.refreshed_at + make_interval(secs => $7::double precision) < now() then 'inactive'
    when $8::boolean and exists (
      select from auth.sessions n where n.user_id = p.user_id and n.created_at > p.created_at) then 'replaced'
    when not coalesce(p.revoked, false) then 'exchanged'
    when n.parent = p.token then 'current'
    when n.token is not null and p.updated_at + make_interval(secs => $5::double precision) >= now() then 'exchanged'
    else 'reused' end as outcome
  from presented p join auth.users u on u.id = p.user_id left join newest n on true
), spent as (
  update auth.refresh_tokens t set revoked = true, updated_at = now() from verdict v
  where v.outcome = 'exchanged' and t.id = v.id and t.revoked is distinct from true
), family as (
  update auth.refresh_tokens t set revoked = true, updated_at = now() from verdict v
  where v.outcome = 'reused' and t.session_id = v.session_id and t.revoked is distinct from true
), issued as (
  insert into auth.refresh_tokens
    (instance_id, token, user_id, parent, session_id, revoked, created_at, updated_at)
  select '00000000-0000-0000-0000-000000000000', $2, v.user_id::text, v.token, v.session_id, false, now(), now()
  from verdict v where v.outcome = 'exchanged'
), touched as (
  update auth.sessions s set refreshed_at = now() at time zone 'utc', updated_at = now(), user_agent = $3,
    ip = $4::text::inet
  from verdict v where v.outcome in ('exchanged', 'current') and s.id = v.session_id
)
select json_build_object('outcome', v.outcome, 'user', ${userJson('u')}, 'session', ${sessionJson('s')},
  'refreshToken', case v.outcome when 'exchanged' then $2 when 'current' then v.newest end)
from verdict v join auth.users u on u.id = v.user_id join auth.sessions s on s.id = v.session_id`;

const REFUSALS = {
  reused: ['refresh_token_already_used', 'Invalid Refresh Token: Already Used'],
  banned: ['user_banned', 'Invalid Refresh Token: User Banned'],
  expired: ['session_expired', 'Invalid Refresh Token: Session Expired'],
  inactive: ['session_expired', 'Invalid Refresh Token: Session Expired (Inactivity)'],
  replaced: ['session_expired', 'Invalid Refresh Token: Session Expired (Revoked by Newer Login)'],
} as const;

export async function exchange(
  pool: Pool,
  token: string,
  device: Device,
  limits: AuthConfig['sessions'],
): Promise<SignedIn & { refreshToken: string }> {
  const statements: Statement[] = [
    { name: 'auth.refresh.lock', text: LOCK, values: [token] },
    {
      name: 'auth.refresh',
      text: EXCHANGE,
      values: [
        token,
        newRefreshToken(),
        device.userAgent,
        device.address,
        limits.reuseSeconds,
        limits.timeboxSeconds ?? null,
        limits.inactivitySeconds ?? null,
        limits.single,
      ],
    },
  ];
  const [, result] = await pool.batch(statements);
  const [exchange] = jsonRows<Exchange>(result);
  if (exchange === undefined) {
    throw badRequest('refresh_token_not_found', 'Invalid Refresh Token: Refresh Token Not Found');
  }
  const { outcome, refreshToken, user, session } = exchange;
  if (outcome !== 'exchanged' && outcome !== 'current') {
    const [code, message] = REFUSALS[outcome];
    throw badRequest(code, message);
  }
  return { user, session, refreshToken: refreshToken as string };
}
