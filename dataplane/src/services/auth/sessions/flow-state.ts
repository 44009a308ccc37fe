/**
 * State of a sign-in that leaves this server (PKCE, OAuth). It is created when the sign-in begins, and deleted when the
 * sign-in is completed or expired.
 */
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import type { Statement } from '../../../sql/pool.js';
import { type Body, text } from '../body.js';
import { badRequest, validationFailed } from '../errors.js';

export interface Challenge {
  challenge: string;
  method: 's256' | 'plain';
}

const CHALLENGE = /^[A-Za-z0-9._~-]{43,128}$/;

/** Undefined: the client requests tokens in the link itself. */
export function challengeOf(values: {
  challenge: string | undefined;
  method: string | undefined;
}): Challenge | undefined {
  const { challenge, method } = values;
  if (!challenge && !method) return undefined;
  if (!challenge || !method) {
    throw validationFailed('PKCE flow requires code_challenge_method and code_challenge');
  }
  if (!CHALLENGE.test(challenge)) {
    throw validationFailed(
      'code challenge has to be between 43 and 128 characters of A-Z, a-z, 0-9, ".", "-", "_", "~"',
    );
  }
  const lower = method.toLowerCase();
  if (lower !== 's256' && lower !== 'plain') throw validationFailed('code_challenge_method must be s256 or plain');
  return { challenge, method: lower };
}

export const challengeInBody = (body: Body) =>
  challengeOf({ challenge: text(body, 'code_challenge'), method: text(body, 'code_challenge_method') });

export interface NewFlow {
  id: string;
  userId: string | null;
  challenge: Challenge | undefined;
  /** `email`, or the OAuth provider. */
  provider: string;
  /** Authentication method of the session: `magiclink`, `recovery`, `oauth` … */
  method: string;
  redirectTo: string | null;
  /** User who gets the identity. */
  linkTo: string | null;
}

export const insertFlow = (flow: NewFlow): Statement => ({
  name: 'auth.flow.insert',
  text: `
insert into auth.flow_state (id, user_id, auth_code, code_challenge_method, code_challenge, provider_type,
  authentication_method, referrer, linking_target_id, created_at, updated_at)
values ($1::uuid, $2::uuid, $3, $4::text::auth.code_challenge_method, $5, $6, $7, $8, $9::uuid, now(), now())`,
  values: [
    flow.id,
    flow.userId,
    randomUUID(),
    flow.challenge?.method ?? null,
    flow.challenge?.challenge ?? null,
    flow.provider,
    flow.method,
    flow.redirectTo,
    flow.linkTo,
  ],
});

/** Begins the flow of a requested link with PKCE. Deletes an earlier flow that was never completed. */
export const beginFlow = (userId: string, challenge: Challenge, method: string): Statement[] => [
  {
    name: 'auth.flow.restart',
    text: 'delete from auth.flow_state where user_id = $1::uuid and authentication_method = $2',
    values: [userId, method],
  },
  insertFlow({ id: randomUUID(), userId, challenge, provider: 'email', method, redirectTo: null, linkTo: null }),
];

/** Records that the link was followed, which makes the code valid. The code is the row's id. */
export const issueCode = (userId: string, methods: readonly string[]): Statement => ({
  name: 'auth.flow.issue',
  text: `
update auth.flow_state set auth_code_issued_at = now(), updated_at = now()
where id = (
  select id from auth.flow_state where user_id = $1::uuid and auth_code_issued_at is null
    and authentication_method in (select jsonb_array_elements_text($2::text::jsonb))
  order by created_at desc limit 1)
returning to_json(auth_code)`,
  values: [userId, JSON.stringify(methods)],
});

export interface Flow {
  userId: string;
  challenge: string | null;
  challengeMethod: 's256' | 'plain' | null;
  method: string;
  expired: boolean;
  providerToken: string | null;
  providerRefreshToken: string | null;
}

/** Reads a code once: a request without the verifier uses it up. */
export const takeFlow = (code: string, seconds: number): Statement => ({
  name: 'auth.flow.take',
  text: `
delete from auth.flow_state where auth_code = $1 and auth_code_issued_at is not null
returning json_build_object('userId', user_id, 'challenge', code_challenge, 'challengeMethod', code_challenge_method,
  'method', authentication_method, 'providerToken', provider_access_token,
  'providerRefreshToken', provider_refresh_token,
  'expired', auth_code_issued_at < now() - make_interval(secs => $2::double precision))`,
  values: [code, seconds],
});

export function checkVerifier({ challenge, challengeMethod }: Flow, verifier: string): void {
  const answer = challengeMethod === 's256' ? createHash('sha256').update(verifier).digest('base64url') : verifier;
  const [expected, sent] = [Buffer.from(challenge ?? ''), Buffer.from(answer)];
  if (challenge === null || expected.length !== sent.length || !timingSafeEqual(expected, sent)) {
    throw badRequest('bad_code_verifier', 'code challenge does not match previously saved code verifier');
  }
}
