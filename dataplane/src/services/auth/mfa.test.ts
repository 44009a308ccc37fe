import type { SupabaseClient } from '@supabase/supabase-js';
import { decodeJwt } from 'jose';
import { Secret, TOTP } from 'otpauth';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, password, sessionOf, startHarness } from './testing/harness.js';

let harness: Harness;
let app: AuthProject;
const SETTINGS = {
  GOTRUE_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY: '1000',
  GOTRUE_MFA_MAX_ENROLLED_FACTORS: '3',
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: 'true',
};

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('mfa', SETTINGS);
});
test.after(() => harness?.close());

/** Codes of different time steps, because each works once. */
const codeOf = (secret: string, steps = 0) =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });

async function enrolled(supabase: SupabaseClient, friendlyName?: string) {
  const { data, error } = await supabase.auth.mfa.enroll({
    factorType: 'totp',
    ...(friendlyName ? { friendlyName } : {}),
  });
  assert.is(error, null);
  return { id: data?.id as string, totp: data?.totp as { secret: string; uri: string; qr_code: string } };
}

/** Creates a user with a verified second factor, and the session that verified it. */
async function protectedUser() {
  const user = await app.signedUp();
  const before = await sessionOf(user.supabase);
  const { id, totp } = await enrolled(user.supabase);
  const code = codeOf(totp.secret);
  const { error } = await user.supabase.auth.mfa.challengeAndVerify({ factorId: id, code });
  assert.is(error, null);
  return { ...user, before, factorId: id, secret: totp.secret, code };
}

async function signIn(email: string) {
  const supabase = app.client();
  assert.is((await supabase.auth.signInWithPassword({ email, password })).error, null);
  return supabase;
}

test('a factor is enrolled with a QR code, and verified with a code of the authenticator', async () => {
  const { supabase, email } = await app.signedUp();
  const { id, totp } = await enrolled(supabase, 'phone');
  assert.ok(decodeURIComponent(totp.qr_code).includes('<svg'));
  assert.match(
    totp.uri,
    new RegExp(`^otpauth://totp/localhost%3A3000|^otpauth://totp/localhost.*${encodeURIComponent(email)}`),
  );
  assert.match(totp.secret, /^[A-Z2-7]{32}$/);
  const unproven = await supabase.auth.mfa.listFactors();
  assert.is(unproven.data?.all.length, 1);
  assert.is(unproven.data?.totp.length, 0);
  const challenge = await supabase.auth.mfa.challenge({ factorId: id });
  assert.ok((challenge.data?.expires_at as number) > Date.now() / 1000);
  const { data, error } = await supabase.auth.mfa.verify({
    factorId: id,
    challengeId: challenge.data?.id as string,
    code: codeOf(totp.secret),
  });
  assert.is(error, null);
  const claims = decodeJwt(data?.access_token as string);
  assert.is(claims.aal, 'aal2');
  assert.equal((claims.amr as { method: string }[]).map(({ method }) => method).sort(), ['password', 'totp']);
  assert.equal((await supabase.auth.mfa.getAuthenticatorAssuranceLevel()).data?.currentLevel, 'aal2');
  assert.is((await supabase.auth.mfa.listFactors()).data?.totp[0]?.friendly_name, 'phone');
});

test('a refresh keeps the session’s assurance level, and a new sign-in resets it', async () => {
  const { supabase, email } = await protectedUser();
  const { data } = await supabase.auth.refreshSession();
  assert.is(decodeJwt(data.session?.access_token as string).aal, 'aal2');
  const fresh = await signIn(email);
  const level = await fresh.auth.mfa.getAuthenticatorAssuranceLevel();
  assert.equal([level.data?.currentLevel, level.data?.nextLevel], ['aal1', 'aal2']);
});

test('other sessions and old tokens end when the first second factor is verified', async () => {
  const user = await app.signedUp();
  const elsewhere = await sessionOf(await signIn(user.email));
  const here = await sessionOf(user.supabase);
  const { id, totp } = await enrolled(user.supabase);
  await user.supabase.auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(totp.secret) });
  const refresh = async (refresh_token: string) =>
    (await app.ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token } })).body;
  assert.is((await refresh(elsewhere.refresh_token)).error_code, 'refresh_token_not_found');
  assert.is(decodeJwt((await refresh(here.refresh_token)).access_token as string).aal, 'aal2');
});

test('a session of level aal1 cannot change how a protected user signs in', async () => {
  const { email, factorId, before } = await protectedUser();
  const thief = await signIn(email);
  assert.is((await thief.auth.updateUser({ password: 'another horse' })).error?.code, 'insufficient_aal');
  assert.is((await thief.auth.updateUser({ email: app.newEmail() })).error?.code, 'insufficient_aal');
  assert.is((await thief.auth.mfa.enroll({ factorType: 'totp' })).error?.code, 'insufficient_aal');
  assert.is((await thief.auth.mfa.unenroll({ factorId })).error?.code, 'insufficient_aal');
  // The session has level aal2 by now, but this token of the session still has the earlier level.
  const link = await thief.auth.linkIdentity({ provider: 'github', options: { skipBrowserRedirect: true } });
  assert.is(link.error?.code, 'insufficient_aal');
  const stale = await app.ask('DELETE', `/factors/${factorId}`, { token: before.access_token });
  assert.is(stale.body.error_code, 'insufficient_aal');
  assert.is((await thief.auth.updateUser({ data: { nick: 'x' } })).error, null);
});

test('a code and a challenge of a factor work once, and a wrong code leaves the challenge open', async () => {
  const { email, factorId, secret, code } = await protectedUser();
  const supabase = await signIn(email);
  const used = await supabase.auth.mfa.challengeAndVerify({ factorId, code });
  assert.is(used.error?.code, 'mfa_verification_failed');
  const challenge = await supabase.auth.mfa.challenge({ factorId });
  const challengeId = challenge.data?.id as string;
  const next = codeOf(secret, 1);
  const wrong = await supabase.auth.mfa.verify({
    factorId,
    challengeId,
    code: next === '000000' ? '000001' : '000000',
  });
  assert.is(wrong.error?.code, 'mfa_verification_failed');
  assert.is((await supabase.auth.mfa.verify({ factorId, challengeId, code: next })).error, null);
  const again = await supabase.auth.mfa.verify({ factorId, challengeId, code: next });
  assert.is(again.error?.code, 'mfa_factor_not_found');
});

test('a challenge of a factor expires, and works only for its own factor', async () => {
  const { supabase, factorId, secret } = await protectedUser();
  const challengeId = (await supabase.auth.mfa.challenge({ factorId })).data?.id as string;
  await app.owner.query("update auth.mfa_challenges set created_at = created_at - interval '6 minutes' where id = $1", [
    challengeId,
  ]);
  const late = await supabase.auth.mfa.verify({ factorId, challengeId, code: codeOf(secret, 1) });
  assert.is(late.error?.code, 'mfa_challenge_expired');
  const stranger = await app.signedUp();
  assert.is((await stranger.supabase.auth.mfa.challenge({ factorId })).error?.code, 'mfa_factor_not_found');
  assert.is((await stranger.supabase.auth.mfa.unenroll({ factorId })).error?.code, 'mfa_factor_not_found');
});

test('guesses at a factor’s codes are limited by user, across challenges', async () => {
  app.configure({ GOTRUE_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY: '4' });
  const { supabase } = await app.signedUp();
  const { id } = await enrolled(supabase);
  const codes: (string | undefined)[] = [];
  for (let i = 0; i < 4; i++) {
    codes.push((await supabase.auth.mfa.challengeAndVerify({ factorId: id, code: '000000' })).error?.code);
  }
  assert.equal(codes.slice(0, 2), ['mfa_verification_failed', 'mfa_verification_failed']);
  assert.is(codes.at(-1), 'over_request_rate_limit');
  app.configure(SETTINGS);
});

test('factors are limited in number, have unique names, and can be removed', async () => {
  const { supabase } = await app.signedUp();
  await enrolled(supabase, 'one');
  const twice = await supabase.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'one' });
  assert.is(twice.error?.code, 'mfa_factor_name_conflict');
  await enrolled(supabase, 'two');
  const { id } = await enrolled(supabase, 'three');
  const four = await supabase.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'four' });
  assert.is(four.error?.code, 'too_many_enrolled_mfa_factors');
  assert.is((await supabase.auth.mfa.unenroll({ factorId: id })).data?.id, id);
  assert.is((await supabase.auth.mfa.listFactors()).data?.all.length, 2);
});

test('the removal of a factor lowers the assurance level of its sessions', async () => {
  const { supabase, factorId } = await protectedUser();
  assert.is((await supabase.auth.mfa.unenroll({ factorId })).error, null);
  const { data } = await supabase.auth.refreshSession();
  const claims = decodeJwt(data.session?.access_token as string);
  assert.is(claims.aal, 'aal1');
  assert.is((claims.amr as object[]).length, 1);
});

test('administrators list and remove factors, and no response contains a secret', async () => {
  const { userId, factorId, secret } = await protectedUser();
  const listed = await app.admin().mfa.listFactors({ userId });
  assert.is(listed.error, null);
  assert.not.match(JSON.stringify(listed), secret);
  assert.is((await app.admin().mfa.deleteFactor({ userId, id: factorId })).error, null);
  assert.is((await app.admin().getUserById(userId)).data.user?.factors, undefined);
});

test('kinds of factors that Slipway does not have are rejected as disabled', async () => {
  const { supabase } = await app.signedUp();
  const phone = await supabase.auth.mfa.enroll({ factorType: 'phone', phone: '+491701234567', friendlyName: 'x' });
  assert.is(phone.error?.code, 'mfa_phone_enroll_not_enabled');
});

test.run();
