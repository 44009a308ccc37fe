/** Routes of the caller's second factors, /factors: enroll, challenge, verify and remove one. */
import { randomUUID } from 'node:crypto';
import { type Body, isUuid, readJson, text } from '../body.js';
import { type Answer, type Context, deviceOf, ok } from '../context.js';
import {
  AuthError,
  badRequest,
  forbidden,
  insufficientAal,
  notFound,
  unprocessable,
  validationFailed,
} from '../errors.js';
import { jsonRows } from '../sessions/session.js';
import { type SignedInUser, signedInUser } from '../sessions/signed-in-user.js';
import { inTransaction } from '../transaction.js';
import { newSecret, qrCode } from './totp.js';

export interface StoredFactor {
  id: string;
  status: 'verified' | 'unverified';
  secret: string | null;
}

export async function enrollFactor(context: Context): Promise<Answer> {
  const { config, request, pool } = context;
  const signedIn = await signedInUser(context);
  requireSession(signedIn);
  const body = await readJson(request);
  const { name, issuer } = enrollment(context, body);
  const id = randomUUID();
  const { secret, uri } = newSecret(issuer, signedIn.user.email || signedIn.user.phone || signedIn.user.id);
  await inTransaction(pool, async (work) => {
    // Locks the user, so that concurrent requests can't exceed the limit.
    await work.run([
      { text: 'select id from auth.users where id = $1::uuid for update', values: [signedIn.user.id] },
      forgetUnproven(signedIn.user.id, config.mfa.factorSeconds),
    ]);
    const factors = await work.first<{ status: string; name: string | null }[]>({
      text: `select coalesce(json_agg(json_build_object('status', status, 'name', friendly_name)), '[]')
from auth.mfa_factors where user_id = $1::uuid`,
      values: [signedIn.user.id],
    });
    mayEnroll(context, signedIn, factors ?? [], name);
    await work.run([
      {
        text: `
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
values ($1::uuid, $2::uuid, $3, 'totp', 'unverified', now(), now(), $4)`,
        values: [id, signedIn.user.id, name, secret],
      },
    ]);
  });
  const totp = { qr_code: await qrCode(uri), secret, uri };
  return ok({ id, type: 'totp', friendly_name: name, totp });
}

function enrollment({ config }: Context, body: Body): { name: string; issuer: string } {
  const type = text(body, 'factor_type');
  if (type === 'phone') throw unprocessable('mfa_phone_enroll_not_enabled', 'MFA enroll is disabled for Phone');
  if (type === 'webauthn') {
    throw unprocessable('mfa_webauthn_enroll_not_enabled', 'MFA enroll is disabled for WebAuthn');
  }
  if (type !== 'totp') throw badRequest('validation_failed', 'factor_type needs to be totp, phone, or webauthn');
  if (!config.mfa.enrollEnabled) throw unprocessable('mfa_totp_enroll_not_enabled', 'MFA enroll is disabled for TOTP');
  const issuer = text(body, 'issuer') || new URL(config.siteUrl).host || 'app';
  const name = text(body, 'friendly_name') ?? '';
  if (name.length > 255 || issuer.length > 255)
    throw validationFailed('friendly_name and issuer may have 255 characters');
  // A colon separates issuer and account in the scanned URI.
  return { name, issuer: issuer.replaceAll(':', ' ') };
}

function mayEnroll(
  { config }: Context,
  { secondFactor }: SignedInUser,
  factors: { status: string; name: string | null }[],
  name: string,
): void {
  if (name !== '' && factors.some((factor) => factor.name === name)) {
    throw unprocessable(
      'mfa_factor_name_conflict',
      `A factor with the friendly name ${JSON.stringify(name)} for this user already exists`,
    );
  }
  const verified = factors.filter(({ status }) => status === 'verified').length;
  if (factors.length >= config.mfa.maxFactors || verified >= config.mfa.maxVerified) {
    throw unprocessable(
      'too_many_enrolled_mfa_factors',
      'Maximum number of verified factors reached, unenroll to continue',
    );
  }
  if (verified > 0 && !secondFactor) throw insufficientAal(403, 'AAL2 required to enroll a new factor');
}

const forgetUnproven = (userId: string, seconds: number) => ({
  text: `
delete from auth.mfa_factors where user_id = $1::uuid and status = 'unverified'
  and created_at < now() - make_interval(secs => $2::double precision)`,
  values: [userId, seconds],
});

/** Returns the caller's factor. Another user's factor counts as missing. */
export async function ownFactor({ pool }: Context, userId: string, id: string): Promise<StoredFactor> {
  if (!isUuid(id)) throw notFound('validation_failed', 'factor_id must be an UUID');
  const [result] = await pool.batch([
    {
      name: 'auth.factor',
      text: `
select json_build_object('id', id, 'status', status, 'secret', secret) from auth.mfa_factors
where id = $1::uuid and user_id = $2::uuid and factor_type = 'totp'`,
      values: [id, userId],
    },
  ]);
  const [factor] = jsonRows<StoredFactor>(result);
  if (factor === undefined) throw notFound('mfa_factor_not_found', 'Factor not found');
  return factor;
}

export function requireSession({ sessionId }: SignedInUser): string {
  if (sessionId === null) throw forbidden('session_not_found', 'A session is needed to use a second factor');
  return sessionId;
}

export async function challengeFactor(context: Context, id: string): Promise<Answer> {
  const { request, pool, config, limits } = context;
  const signedIn = await signedInUser(context);
  limits.mfaGuess(context, signedIn.user.id);
  const factor = await ownFactor(context, signedIn.user.id, id);
  const challenge = randomUUID();
  const { address } = deviceOf(request);
  await pool.batch([
    {
      text: `
delete from auth.mfa_challenges where factor_id = $1::uuid
  and created_at < now() - make_interval(secs => $2::double precision)`,
      values: [factor.id, Math.max(config.mfa.challengeSeconds, 300)],
    },
    {
      text: `
insert into auth.mfa_challenges (id, factor_id, created_at, ip_address)
values ($1::uuid, $2::uuid, now(), coalesce($3::text, '0.0.0.0')::inet)`,
      values: [challenge, factor.id, address],
    },
    {
      text: 'update auth.mfa_factors set last_challenged_at = clock_timestamp() where id = $1::uuid',
      values: [factor.id],
    },
  ]);
  const expires = Math.floor(Date.now() / 1000) + config.mfa.challengeSeconds;
  return ok({ id: challenge, type: 'totp', expires_at: expires });
}

export async function unenrollFactor(context: Context, id: string): Promise<Answer> {
  const signedIn = await signedInUser(context);
  const factor = await ownFactor(context, signedIn.user.id, id);
  if (factor.status === 'verified' && !signedIn.secondFactor) {
    throw new AuthError(422, 'insufficient_aal', 'AAL2 required to unenroll verified factor');
  }
  await context.pool.batch(removeFactor(factor.id));
  return ok({ id: factor.id });
}

/** Lowers the level of sessions that the removed factor verified. */
export const removeFactor = (id: string) => [
  {
    text: `
delete from auth.mfa_amr_claims c using auth.sessions s
where c.session_id = s.id and s.factor_id = $1::uuid and c.authentication_method = 'totp'`,
    values: [id],
  },
  {
    text: "update auth.sessions set aal = 'aal1', factor_id = null, updated_at = now() where factor_id = $1::uuid",
    values: [id],
  },
  { text: 'delete from auth.mfa_factors where id = $1::uuid', values: [id] },
];
