import { type AddressInfo, createServer } from 'node:net';
import { readAuthConfig } from '@slipway/installation/auth-settings.js';
import { outboundTo } from '@slipway/program/outbound.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { sendBySmtp } from './mail/smtp.js';
import { type AuthProject, type Harness, landing, password, sessionOf, startHarness } from './testing/harness.js';

let harness: Harness;
let app: AuthProject;
const SITE = 'https://app.example.com';

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('mails', {
    ...harness.mailbox.settings,
    GOTRUE_SITE_URL: SITE,
    GOTRUE_URI_ALLOW_LIST: 'https://*.preview.example.com/**,myapp://callback',
    GOTRUE_MAILER_SUBJECTS_RECOVERY: 'Reset for {{ .Email }}',
  });
});
test.after(() => harness?.close());

const next = (email: string) => harness.mailbox.next(email);

/** Signs a user up with the code of the mail. */
async function confirmed(email = app.newEmail()) {
  const supabase = app.client();
  const { data } = await supabase.auth.signUp({ email, password });
  const { code } = await next(email);
  const { error } = await supabase.auth.verifyOtp({ email, token: code, type: 'signup' });
  assert.is(error, null);
  return { supabase, email, userId: data.user?.id as string };
}

test('a sign-up sends a mail, whose code signs the user in', async () => {
  const email = app.newEmail();
  const supabase = app.client();
  const { data, error } = await supabase.auth.signUp({ email, password });
  assert.is(error, null);
  assert.is(data.session, null);
  assert.ok(data.user?.confirmation_sent_at);
  assert.is(data.user?.email_confirmed_at, undefined);
  assert.is((await app.client().auth.signInWithPassword({ email, password })).error?.code, 'email_not_confirmed');
  const mail = await next(email);
  assert.is(mail.subject, 'Confirm Your Email');
  const verified = await supabase.auth.verifyOtp({ email, token: mail.code, type: 'signup' });
  assert.is(verified.error, null);
  assert.ok(verified.data.user?.email_confirmed_at);
  assert.is(verified.data.user?.user_metadata.email_verified, true);
  assert.is(verified.data.user?.identities?.[0]?.identity_data?.email_verified, true);
});

test('the link in a mail goes to the project’s URL, which redirects to the site with a session', async () => {
  const email = app.newEmail();
  await app.ask('POST', '/signup', { body: { email, password }, headers: { 'x-forwarded-host': 'evil.example' } });
  const { link } = await next(email);
  assert.ok(link.startsWith(`${app.url}/auth/v1/verify?`));
  const answer = await fetch(link, { redirect: 'manual' });
  assert.is(answer.status, 303);
  const { url, fragment } = landing(answer.headers.get('location'));
  assert.is(url.origin, SITE);
  assert.is(fragment.get('type'), 'signup');
  const { data } = await app.client().auth.getUser(fragment.get('access_token') as string);
  assert.is(data.user?.email, email);
  const again = landing((await fetch(link, { redirect: 'manual' })).headers.get('location'));
  assert.is(again.fragment.get('error_code'), 'otp_expired');
  assert.is(again.fragment.get('error'), 'access_denied');
});

test('a link with PKCE returns a code that only its verifier can exchange, once', async () => {
  const { email } = await confirmed();
  const storage = new Map<string, string>();
  const supabase = app.client(undefined, {
    flowType: 'pkce',
    storage: {
      getItem: (key: string) => storage.get(key) ?? null,
      setItem: (key: string, value: string) => void storage.set(key, value),
      removeItem: (key: string) => void storage.delete(key),
    },
    persistSession: true,
  });
  assert.is((await supabase.auth.signInWithOtp({ email })).error, null);
  const { link } = await next(email);
  const { query, fragment } = landing((await fetch(link, { redirect: 'manual' })).headers.get('location'));
  assert.is(fragment.get('access_token'), null);
  const code = query.get('code') as string;
  const { data, error } = await supabase.auth.exchangeCodeForSession(code);
  assert.is(error, null);
  assert.is(data.user?.email, email);
  const again = await app.ask('POST', '/token?grant_type=pkce', { body: { auth_code: code, code_verifier: 'x' } });
  assert.is(again.body.error_code, 'flow_state_not_found');
});

test('a code with the wrong verifier is rejected and invalidated', async () => {
  const { email } = await confirmed();
  const challenge = 'a'.repeat(43);
  const body = { email, code_challenge: challenge, code_challenge_method: 'plain' };
  await app.ask('POST', '/otp', { body });
  const { link } = await next(email);
  const { query } = landing((await fetch(link, { redirect: 'manual' })).headers.get('location'));
  const exchange = (code_verifier: string) =>
    app.ask('POST', '/token?grant_type=pkce', { body: { auth_code: query.get('code'), code_verifier } });
  assert.is((await exchange('b'.repeat(43))).body.error_code, 'bad_code_verifier');
  assert.is((await exchange(challenge)).body.error_code, 'flow_state_not_found');
});

test('a magic link signs a known user in, and signs an unknown user up', async () => {
  const { email, userId } = await confirmed();
  const supabase = app.client();
  assert.is((await supabase.auth.signInWithOtp({ email })).error, null);
  const mail = await next(email);
  assert.is(mail.subject, 'Your Magic Link');
  const { data } = await supabase.auth.verifyOtp({ email, token: mail.code, type: 'email' });
  assert.is(data.user?.id, userId);
  const stranger = app.newEmail();
  await supabase.auth.signInWithOtp({ email: stranger, options: { data: { nick: 'Al' } } });
  const { code } = await next(stranger);
  const made = await app.client().auth.verifyOtp({ email: stranger, token: code, type: 'email' });
  assert.is(made.data.user?.user_metadata.nick, 'Al');
  assert.ok(made.data.user?.email_confirmed_at);
});

test('a recovery link signs the user in, and the session can set a new password', async () => {
  const { email } = await confirmed();
  const supabase = app.client();
  assert.is((await supabase.auth.resetPasswordForEmail(email)).error, null);
  const mail = await next(email);
  assert.is(mail.subject, `Reset for ${email}`);
  const hash = new URL(mail.link).searchParams.get('token') as string;
  assert.is((await supabase.auth.verifyOtp({ token_hash: hash, type: 'recovery' })).error, null);
  assert.is((await supabase.auth.updateUser({ password: 'another horse' })).error, null);
  assert.is((await app.client().auth.signInWithPassword({ email, password: 'another horse' })).error, null);
});

test('a code works only once, and only if it is the newest', async () => {
  const { email } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const first = await next(email);
  await app.client().auth.signInWithOtp({ email });
  const second = await next(email);
  const verify = (token: string) => app.client().auth.verifyOtp({ email, token, type: 'email' });
  if (first.code !== second.code) assert.is((await verify(first.code)).error?.code, 'otp_expired');
  const both = await Promise.all([verify(second.code), verify(second.code)]);
  assert.is(both.filter(({ error }) => error === null).length, 1);
});

test('an expired code is rejected', async () => {
  const { email, userId } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const { code } = await next(email);
  await app.owner.query(
    "update auth.one_time_tokens set created_at = created_at - interval '61 minutes' where user_id = $1",
    [userId],
  );
  assert.is((await app.client().auth.verifyOtp({ email, token: code, type: 'email' })).error?.code, 'otp_expired');
});

test('a change of address takes effect once both addresses have confirmed it', async () => {
  const { supabase, email } = await confirmed();
  const newEmail = app.newEmail();
  const { data, error } = await supabase.auth.updateUser({ email: newEmail });
  assert.is(error, null);
  assert.is(data.user?.email, email);
  assert.is(data.user?.new_email, newEmail);
  const [old, fresh] = [await next(email), await next(newEmail)];
  const half = landing((await fetch(old.link, { redirect: 'manual' })).headers.get('location'));
  assert.match(half.fragment.get('message') as string, /other email/);
  assert.is((await supabase.auth.getUser()).data.user?.email, email);
  const done = await app.client().auth.verifyOtp({ email: newEmail, token: fresh.code, type: 'email_change' });
  assert.is(done.error, null);
  assert.is(done.data.user?.email, newEmail);
  assert.is(done.data.user?.new_email, undefined);
  assert.is((await app.client().auth.signInWithPassword({ email: newEmail, password })).error, null);
});

for (const [whose, change] of [
  [
    'that the user changed',
    async ({ supabase, email }, newEmail) => {
      await supabase.auth.updateUser({ email: newEmail });
      for (const address of [email, newEmail]) {
        await app.client().auth.verifyOtp({ email: address, token: (await next(address)).code, type: 'email_change' });
      }
    },
  ],
  ['that an administrator changed', ({ userId }, email) => app.admin().updateUserById(userId, { email })],
  [
    'that the owner changed with SQL',
    ({ userId }, email) => app.owner.query('update auth.users set email = $2 where id = $1', [userId, email]),
  ],
] as [string, (user: Awaited<ReturnType<typeof confirmed>>, newEmail: string) => Promise<unknown>][]) {
  test(`a mail to an address ${whose} signs no user in`, async () => {
    const user = await confirmed();
    await app.client().auth.resetPasswordForEmail(user.email);
    const { code, link } = await next(user.email);
    const newEmail = app.newEmail();
    await change(user, newEmail);
    assert.is((await app.admin().getUserById(user.userId)).data.user?.email, newEmail);
    const typed = await app.client().auth.verifyOtp({ email: user.email, token: code, type: 'recovery' });
    assert.is(typed.error?.code, 'otp_expired');
    const followed = landing((await fetch(link, { redirect: 'manual' })).headers.get('location'));
    assert.is(followed.fragment.get('error_code'), 'otp_expired');
  });
}

test('a code for an address stays invalid after the user changed to another address and back', async () => {
  const { email, userId } = await confirmed();
  await app.client().auth.resetPasswordForEmail(email);
  const { code } = await next(email);
  for (const address of [app.newEmail(), email]) await app.admin().updateUserById(userId, { email: address });
  const { error } = await app.client().auth.verifyOtp({ email, token: code, type: 'recovery' });
  assert.is(error?.code, 'otp_expired');
});

test('a half-confirmed change of address is invalid once another change replaces it', async () => {
  const { supabase, email, userId } = await confirmed();
  const newEmail = app.newEmail();
  await supabase.auth.updateUser({ email: newEmail });
  const fresh = await next(newEmail);
  assert.is((await fetch(fresh.link, { redirect: 'manual' })).status, 303);
  await supabase.auth.updateUser({ password: 'another horse' });
  const { data } = await app.admin().generateLink({ type: 'email_change_new', email, newEmail });
  const half = await fetch(data.properties?.action_link as string, { redirect: 'manual' });
  assert.ok(landing(half.headers.get('location')).fragment.get('message'));
  assert.is((await app.admin().getUserById(userId)).data.user?.email, email);
});

test('a resend repeats the mail of a sign-up and of a change of address', async () => {
  const email = app.newEmail();
  await app.client().auth.signUp({ email, password });
  await next(email);
  assert.is((await app.client().auth.resend({ type: 'signup', email })).error, null);
  const { code } = await next(email);
  const supabase = app.client();
  assert.is((await supabase.auth.verifyOtp({ email, token: code, type: 'signup' })).error, null);
  const newEmail = app.newEmail();
  await supabase.auth.updateUser({ email: newEmail });
  await next(newEmail);
  await app.client().auth.resend({ type: 'email_change', email });
  assert.is((await next(newEmail)).subject, 'Confirm Email Change');
});

test('an invitation by an administrator signs the invited user in', async () => {
  const email = app.newEmail();
  const { data, error } = await app.admin().inviteUserByEmail(email, { data: { team: 'x' } });
  assert.is(error, null);
  assert.ok(data.user?.invited_at);
  assert.is(data.user?.user_metadata.team, 'x');
  const { code } = await next(email);
  assert.is((await app.client().auth.verifyOtp({ email, token: code, type: 'invite' })).error, null);
  assert.is((await app.admin().inviteUserByEmail(email)).error?.code, 'email_exists');
});

test('generate_link returns a working link of every type', async () => {
  const { email } = await confirmed();
  const follow = async (link: string) => landing((await fetch(link, { redirect: 'manual' })).headers.get('location'));
  const generate = async (parameters: Parameters<ReturnType<typeof app.admin>['generateLink']>[0]) => {
    const { data, error } = await app.admin().generateLink(parameters);
    assert.is(error, null);
    assert.match(data.properties?.email_otp as string, /^\d{6}$/);
    return data.properties?.action_link as string;
  };
  for (const parameters of [
    { type: 'magiclink', email },
    { type: 'recovery', email },
    { type: 'invite', email: app.newEmail() },
    { type: 'signup', email: app.newEmail(), password },
  ] as const) {
    const { fragment } = await follow(await generate(parameters));
    assert.ok(fragment.get('access_token'), parameters.type);
  }
  const newEmail = app.newEmail();
  const current = await follow(await generate({ type: 'email_change_current', email, newEmail }));
  assert.ok(current.fragment.get('message'));
  const fresh = await follow(await generate({ type: 'email_change_new', email, newEmail }));
  assert.ok(fresh.fragment.get('access_token'));
  assert.is((await app.client().auth.signInWithPassword({ email: newEmail, password })).error, null);
  const unknown = await app.admin().generateLink({ type: 'recovery', email: app.newEmail() });
  assert.is(unknown.error?.code, 'user_not_found');
});

test('a link for a sign-up keeps the metadata of the request, for a new and for an unconfirmed user', async () => {
  const email = app.newEmail();
  for (const data of [{ plan: 'free' }, { plan: 'pro' }]) {
    const made = await app.admin().generateLink({ type: 'signup', email, password, options: { data } });
    assert.is(made.error, null);
    assert.equal(made.data.user?.user_metadata, data);
  }
});

test('a code for an unknown address is rejected if no user may be created', async () => {
  const email = app.newEmail();
  const wanted = { email, options: { shouldCreateUser: false } };
  const { error } = await app.client().auth.signInWithOtp(wanted);
  assert.equal([error?.status, error?.code, error?.message], [422, 'otp_disabled', 'Signups not allowed for otp']);
  assert.is((await app.client().auth.signUp({ email, password })).error, null);
  await next(email);
  assert.is((await app.client().auth.signInWithOtp(wanted)).error, null);
});

test('the password change of an old session needs a mailed code', async () => {
  app.configure({ ...harness.mailbox.settings, GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: 'true' });
  const { supabase, email, userId } = await confirmed();
  await app.owner.query("update auth.sessions set created_at = created_at - interval '25 hours' where user_id = $1", [
    userId,
  ]);
  const without = await supabase.auth.updateUser({ password: 'another horse' });
  assert.is(without.error?.code, 'reauthentication_needed');
  assert.is((await supabase.auth.reauthenticate()).error, null);
  const { code } = await next(email);
  const wrong = await supabase.auth.updateUser({
    password: 'another horse',
    nonce: code === '000000' ? '1' : '000000',
  });
  assert.is(wrong.error?.code, 'reauthentication_not_valid');
  assert.is((await supabase.auth.updateUser({ password: 'another horse', nonce: code })).error, null);
  const again = await supabase.auth.updateUser({ password: 'third horse', nonce: code });
  assert.is(again.error?.code, 'reauthentication_not_valid');
});

test('mails to an address have a minimum interval and an hourly limit', async () => {
  app.configure({ ...harness.mailbox.settings, GOTRUE_SMTP_MAX_FREQUENCY: '1m', GOTRUE_RATE_LIMIT_EMAIL_SENT: '2' });
  const send = (email: string) => app.client().auth.resetPasswordForEmail(email);
  const email = app.newEmail();
  assert.is((await send(email)).error, null);
  const soon = await send(email);
  assert.is(soon.error?.code, 'over_email_send_rate_limit');
  assert.is(soon.error?.status, 429);
  assert.match(soon.error?.message as string, /^For security purposes, you can only request this after \d+ seconds\.$/);
});

test('a change of address within the mail interval changes no other field', async () => {
  const settings = { ...harness.mailbox.settings, GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: 'true' };
  app.configure(settings);
  const { supabase, email, userId } = await confirmed();
  await app.owner.query("update auth.sessions set created_at = created_at - interval '25 hours' where user_id = $1", [
    userId,
  ]);
  await supabase.auth.reauthenticate();
  const { code: nonce } = await next(email);
  app.configure({ ...settings, GOTRUE_SMTP_MAX_FREQUENCY: '1m' });
  assert.is((await supabase.auth.updateUser({ email: app.newEmail() })).error, null);
  const soon = { email: app.newEmail(), password: 'another horse', nonce, data: { nick: 'Al' } };
  assert.is((await supabase.auth.updateUser(soon)).error?.code, 'over_email_send_rate_limit');
  const { data } = await app.client().auth.signInWithPassword({ email, password });
  assert.is(data.user?.id, userId);
  assert.is(data.user?.user_metadata.nick, undefined);
  const { email: _, ...rest } = soon;
  assert.is((await supabase.auth.updateUser(rest)).error, null);
  app.configure(settings);
});

test('a change of address can be confirmed by the next mail after a mail that failed', async () => {
  app.configure(harness.mailbox.settings);
  const { supabase, email } = await confirmed();
  const newEmail = app.newEmail();
  app.configure({ GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: '1' });
  const changed = await supabase.auth.updateUser({ email: newEmail, password: 'another horse' });
  assert.is(changed.error, null);
  assert.is(changed.data.user?.new_email, newEmail);
  app.configure(harness.mailbox.settings);
  await app.client().auth.resend({ type: 'email_change', email });
  assert.ok((await next(newEmail)).code);
});

test('a mail template gets escaped values, and an invalid setting affects no other setting', async () => {
  app.configure({
    ...harness.mailbox.settings,
    GOTRUE_MAILER_TEMPLATES_CONFIRMATION: '<b>{{ .Data.nick }}</b> {{ .SiteURL }} {{ .Nothing }} code: {{ .Token }}',
    GOTRUE_SITE_URL: SITE,
    GOTRUE_JWT_EXP: 'soon',
    GOTRUE_UNHEARD_OF: 'x',
  });
  const email = app.newEmail();
  await app.client().auth.signUp({ email, password, options: { data: { nick: '<script>' } } });
  const { html } = await next(email);
  assert.match(html, /<b>&lt;script&gt;<\/b> https:\/\/app\.example\.com {2}code: \d{6}/);
  const { body } = await app.ask('GET', '/settings', { token: app.tenant.serviceRoleKey });
  assert.equal(
    (body.config_problems as { key: string }[]).map(({ key }) => key),
    ['GOTRUE_JWT_EXP', 'GOTRUE_UNHEARD_OF'],
  );
  assert.is((await app.ask('GET', '/settings')).body.config_problems, undefined);
});

test('the log contains no code, no token and no password of the mail server', async () => {
  assert.ok(harness.logged.length > 0);
  assert.not.match(harness.logged.join('\n'), /mail-canary|correct horse|pkce_/);
});

test('a failing mail server is reported to the waiting administrator, and logged', async () => {
  app.configure({ GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: '1' });
  const token = app.tenant.serviceRoleKey;
  const { status, body } = await app.ask('POST', '/invite', { token, body: { email: app.newEmail() } });
  assert.is(status, 500);
  assert.is(body.msg, 'Error sending invite email');
});

test('a user who confirmed the address can use the session', async () => {
  app.configure(harness.mailbox.settings);
  const { supabase } = await confirmed();
  const { refresh_token } = await sessionOf(supabase);
  assert.is((await supabase.auth.refreshSession({ refresh_token })).error, null);
});

test('a slow mail server is disconnected when the timeout of the delivery expires', async () => {
  const trickling = createServer((socket) => {
    socket.write('220 here\r\n');
    const timer = setInterval(() => socket.write('250-x\r\n'), 100);
    socket.on('close', () => clearInterval(timer));
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => trickling.listen(0, '127.0.0.1', resolve));
  const { port } = trickling.address() as AddressInfo;
  const { config } = readAuthConfig({ GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: String(port) });
  const letter = { to: 'a@example.com', subject: 's', html: 'h' };
  const error = await sendBySmtp(
    outboundTo(() => true),
    config,
    letter,
    3_000,
  ).catch((caught) => caught);
  trickling.close();
  assert.instance(error, Error);
});

test.run();
