/**
 * Route POST /factors/{id}/verify: verifies the code for a challenge. The session then has level aal2 and gets new
 * tokens; the user's other sessions without it end. A challenge and a code work once, and guesses are limited by user.
 */
import { isUuid, readJson, text } from '../body.js';
import { type Answer, type Context, deviceOf, ok } from '../context.js';
import { AuthError, forbidden, notFound, unprocessable, validationFailed } from '../errors.js';
import { invokeHook, messageOf, rejected } from '../hooks/invoke.js';
import { grant } from '../sessions/grant.js';
import { newRefreshToken, type SignedIn, selectSignedIn } from '../sessions/session.js';
import { type SignedInUser, signedInUser } from '../sessions/signed-in-user.js';
import { inTransaction, type Work } from '../transaction.js';
import { endSessions } from '../users/user-changes.js';
import { ownFactor, requireSession, type StoredFactor } from './factors.js';
import { stepOf } from './totp.js';

export async function verifyFactor(context: Context, id: string): Promise<Answer> {
  const { request, config, limits, pool } = context;
  const signedIn = await signedInUser(context);
  const sessionId = requireSession(signedIn);
  const factor = await ownFactor(context, signedIn.user.id, id);
  if (!config.mfa.verifyEnabled)
    throw unprocessable('mfa_totp_verify_not_enabled', 'MFA verification is disabled for TOTP');
  const body = await readJson(request);
  const [challengeId, code] = [text(body, 'challenge_id'), text(body, 'code') ?? ''];
  if (!isUuid(challengeId)) throw validationFailed('challenge_id must be an UUID');
  limits.mfaGuess(context, signedIn.user.id);
  const step = factor.secret ? stepOf(factor.secret, code) : undefined;
  await askHook(context, signedIn, factor, step !== undefined);
  const refreshToken = newRefreshToken();
  const raised = await inTransaction(pool, async (work) => {
    await answerChallenge(context, work, factor, { id: challengeId, step });
    await work.run(raise(signedIn.user.id, sessionId, factor.id, refreshToken));
    return work.first<SignedIn>(selectSignedIn(sessionId));
  });
  if (raised === undefined) throw forbidden('session_not_found', 'The session has ended');
  return ok(await grant(context, raised, refreshToken, 'totp'));
}

async function askHook(context: Context, { user }: SignedInUser, factor: StoredFactor, valid: boolean): Promise<void> {
  const input = { factor_id: factor.id, factor_type: 'totp', user_id: user.id, valid };
  const output = await invokeHook(context, 'mfa_verification_attempt', input);
  if (!rejected(output)) return;
  await context.pool.batch(endSessions(user.id));
  throw new AuthError(
    403,
    'mfa_verification_rejected',
    messageOf(output, 'Further MFA verification attempts will be rejected.'),
  );
}

interface Challenge {
  expired: boolean;
  answered: boolean;
  sameAddress: boolean;
  codeUsed: boolean;
}

async function answerChallenge(
  { config, request }: Context,
  work: Work,
  factor: StoredFactor,
  { id, step }: { id: string; step: number | undefined },
): Promise<void> {
  // Locks the factor, so that only one of two concurrent requests with a code succeeds.
  await work.run([{ text: 'select id from auth.mfa_factors where id = $1::uuid for update', values: [factor.id] }]);
  const challenge = await work.first<Challenge>({
    text: `
select json_build_object('expired', c.created_at < now() - make_interval(secs => $3::double precision),
  'answered', c.verified_at is not null,
  'sameAddress', c.ip_address = coalesce($4::text, '0.0.0.0')::inet,
  'codeUsed', exists (select from auth.mfa_challenges u where u.factor_id = c.factor_id and u.otp_code = $5))
from auth.mfa_challenges c where c.id = $1::uuid and c.factor_id = $2::uuid`,
    values: [id, factor.id, config.mfa.challengeSeconds, deviceOf(request).address, String(step ?? '')],
  });
  if (challenge === undefined || challenge.answered) {
    throw notFound('mfa_factor_not_found', 'MFA factor with the provided challenge ID not found');
  }
  if (!challenge.sameAddress) {
    throw unprocessable('mfa_ip_address_mismatch', 'Challenge and verify IP addresses mismatch');
  }
  if (challenge.expired) {
    throw unprocessable(
      'mfa_challenge_expired',
      `MFA challenge ${id} has expired, verify against another challenge or create a new challenge.`,
    );
  }
  if (step === undefined || challenge.codeUsed) {
    throw unprocessable('mfa_verification_failed', 'Invalid TOTP code entered');
  }
  // Records the time step instead of the code, because the step must not repeat.
  await work.run([
    {
      text: 'update auth.mfa_challenges set verified_at = now(), otp_code = $2 where id = $1::uuid',
      values: [id, String(step)],
    },
  ]);
}

const raise = (userId: string, sessionId: string, factorId: string, refreshToken: string) => [
  {
    text: "update auth.mfa_factors set status = 'verified', updated_at = now() where id = $1::uuid",
    values: [factorId],
  },
  {
    text: "delete from auth.mfa_factors where user_id = $1::uuid and status = 'unverified' and id <> $2::uuid",
    values: [userId, factorId],
  },
  {
    text: `
update auth.sessions set aal = 'aal2', factor_id = $2::uuid, refreshed_at = now() at time zone 'utc', updated_at = now()
where id = $1::uuid`,
    values: [sessionId, factorId],
  },
  {
    text: `
insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
values (gen_random_uuid(), $1::uuid, now(), now(), 'totp')
on conflict (session_id, authentication_method) do update set updated_at = now()`,
    values: [sessionId],
  },
  {
    text: `
update auth.refresh_tokens set revoked = true, updated_at = now() where session_id = $1::uuid and revoked = false`,
    values: [sessionId],
  },
  {
    text: `
insert into auth.refresh_tokens (instance_id, token, user_id, session_id, revoked, created_at, updated_at)
values ('00000000-0000-0000-0000-000000000000', $2, $3, $1::uuid, false, now(), now())`,
    values: [sessionId, refreshToken, userId],
  },
  {
    text: "delete from auth.sessions where user_id = $1::uuid and aal is distinct from 'aal2' and id <> $2::uuid",
    values: [userId, sessionId],
  },
];
