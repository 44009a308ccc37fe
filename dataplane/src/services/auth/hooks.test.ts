import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from '@slipway/testing';
import { decodeJwt } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, password, sessionOf, startHarness } from './testing/harness.js';

type Json = Record<string, unknown>;

let harness: Harness;
let app: AuthProject;
let server: Server;
let hookUrl: string;
const secret = randomBytes(32);
const SECRETS = `v1,whsec_${secret.toString('base64')}`;
/** Requests that the hook server received. */
let requests: Json[] = [];
let answer: (input: Json) => { status?: number; body?: unknown; headers?: Record<string, string> };

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('hooks');
  server = createServer(async (incoming, outgoing) => {
    let text = '';
    for await (const chunk of incoming) text += chunk;
    if (!isSigned(incoming.headers as Record<string, string>, text)) return void outgoing.writeHead(401).end();
    const input = JSON.parse(text) as Json;
    requests.push(input);
    const { status = 200, body = {}, headers = { 'content-type': 'application/json' } } = answer(input);
    outgoing.writeHead(status, headers).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  hookUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});
test.before.each(() => {
  requests = [];
  answer = () => ({});
});
test.after(async () => {
  server?.closeAllConnections();
  server?.close();
  await harness?.close();
});

/** Verifies a signature as defined by https://www.standardwebhooks.com. */
function isSigned(headers: Record<string, string>, body: string): boolean {
  const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const expected = `v1,${createHmac('sha256', secret).update(content).digest('base64')}`;
  const sent = headers['webhook-signature'] ?? '';
  return sent.length === expected.length && timingSafeEqual(Buffer.from(sent), Buffer.from(expected));
}

const nextRequest = (): Promise<Json> => until(() => requests.shift(), 'a request to the hook');

const overHttp = (name: string) => ({
  [`GOTRUE_HOOK_${name}_ENABLED`]: 'true',
  [`GOTRUE_HOOK_${name}_URI`]: hookUrl,
  [`GOTRUE_HOOK_${name}_SECRETS`]: SECRETS,
});
const inDatabase = (name: string, functionName: string) => ({
  [`GOTRUE_HOOK_${name}_ENABLED`]: 'true',
  [`GOTRUE_HOOK_${name}_URI`]: `pg-functions://postgres/public/${functionName}`,
});

async function define(name: string, body: string) {
  await app.owner.query(`create or replace function public.${name}(event jsonb) returns jsonb language plpgsql as $f$
    begin ${body} end $f$`);
  await app.owner.query(`revoke execute on function public.${name} from public, anon, authenticated`);
  await app.owner.query(`grant execute on function public.${name} to supabase_auth_admin`);
}

test('a hook in the database adds claims to every new token', async () => {
  await define('claims', `return jsonb_set(event, '{claims,team}', to_jsonb(event ->> 'authentication_method'));`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'claims'));
  const { supabase } = await app.signedUp();
  assert.is(decodeJwt((await sessionOf(supabase)).access_token).team, 'password');
  const { data } = await supabase.auth.refreshSession();
  assert.is(decodeJwt(data.session?.access_token as string).team, 'token_refresh');
});

test('a hook in the database runs as the auth role, which is no superuser and can become no other role', async () => {
  await app.owner.query('create table if not exists public.seen (who text, super boolean, postgres boolean)');
  await app.owner.query('grant insert on public.seen to supabase_auth_admin');
  await define(
    'who',
    `insert into public.seen select current_user,
       (select rolsuper or rolbypassrls or rolcreaterole from pg_roles where rolname = current_user),
       pg_has_role(current_user, 'postgres.hooks', 'member'); return event;`,
  );
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'who'));
  await app.signedUp();
  const { rows } = await app.owner.query('select * from public.seen');
  assert.equal(rows[0], { who: 'auth_admin.hooks', super: false, postgres: false });
  await define('leave', `set role "postgres"; return event;`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'leave'));
  const refused = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(refused.status, 500);
});

test('a hook can’t change the user of a token, or remove required claims', async () => {
  await define('forge', `return jsonb_set(event, '{claims,sub}', '"5f6e0c43-0000-4000-8000-000000000000"');`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'forge'));
  const { supabase, userId } = await app.signedUp();
  assert.is(decodeJwt((await sessionOf(supabase)).access_token).sub, userId);
  await define('shorten', `return event #- '{claims,exp}';`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'shorten'));
  const { status, body } = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(status, 500);
  assert.match(body.msg as string, /exp is required/);
});

test('a hook in the database that takes too long is cancelled, and its error is not shown', async () => {
  await define('slow', `perform pg_sleep(20); return event;`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'slow'));
  const slow = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(slow.body.error_code, 'hook_timeout');
  await define('raises', `raise exception 'secret reason';`);
  app.configure(inDatabase('CUSTOM_ACCESS_TOKEN', 'raises'));
  const raised = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(raised.status, 500);
  assert.not.match(JSON.stringify(raised.body), /secret reason/);
});

test('an HTTP hook gets a signed request, and its error message reaches the client', async () => {
  app.configure(overHttp('BEFORE_USER_CREATED'));
  answer = ({ user }) =>
    (user as Json).email === 'bad@example.com' ? { body: { error: { http_code: 403, message: 'Not you' } } } : {};
  const refused = await app.ask('POST', '/signup', { body: { email: 'bad@example.com', password } });
  assert.equal([refused.status, refused.body.msg], [403, 'Not you']);
  const { userId } = await app.signedUp();
  assert.is((requests.at(-1) as { user: Json }).user.id, userId);
  const { rowCount } = await app.owner.query("select from auth.users where email = 'bad@example.com'");
  assert.is(rowCount, 0);
});

for (const [what, reply, code] of [
  ['is broken', { status: 500 }, 'unexpected_failure'],
  ['answers with no object', { body: [1] }, 'unexpected_failure'],
  ['answers with something else', { headers: { 'content-type': 'text/html' } }, 'hook_payload_invalid_content_type'],
  ['answers without end', { body: 'x'.repeat(300_000) }, 'hook_payload_over_size_limit'],
] as const) {
  test(`a hook server that ${what} fails the sign-up with ${code}`, async () => {
    app.configure(overHttp('BEFORE_USER_CREATED'));
    answer = () => reply;
    const { body } = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
    assert.is(body.error_code, code);
  });
}

test('a hook server with another secret fails the sign-up', async () => {
  app.configure({
    ...overHttp('BEFORE_USER_CREATED'),
    GOTRUE_HOOK_BEFORE_USER_CREATED_SECRETS: `v1,whsec_${randomBytes(32).toString('base64')}`,
  });
  const { status } = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(status, 500);
  assert.is(requests.length, 0);
});

test('a send_email hook gets the code and the redirect', async () => {
  app.configure({ ...overHttp('SEND_EMAIL'), GOTRUE_SITE_URL: 'https://app.example.com' });
  const email = app.newEmail();
  await app.client().auth.signUp({ email, password });
  const { user, email_data: data } = (await nextRequest()) as { user: Json; email_data: Json };
  assert.is(user.email, email);
  assert.equal([data.email_action_type, data.redirect_to], ['signup', 'https://app.example.com']);
  const verified = await app.client().auth.verifyOtp({ token_hash: data.token_hash as string, type: 'signup' });
  assert.is(verified.error, null);
});

test('a user signs up and in by phone with codes that a hook sends', async () => {
  app.configure({ ...overHttp('SEND_SMS'), GOTRUE_EXTERNAL_PHONE_ENABLED: 'true' });
  const supabase = app.client();
  const { data, error } = await supabase.auth.signUp({ phone: '+491701234567', password });
  assert.is(error, null);
  assert.is(data.session, null);
  const { sms } = (await nextRequest()) as { sms: Json };
  assert.equal([sms.phone, sms.sms_type], ['491701234567', 'sms']);
  const early = await supabase.auth.signInWithPassword({ phone: '+491701234567', password });
  assert.is(early.error?.code, 'phone_not_confirmed');
  const token = sms.otp as string;
  const verified = await supabase.auth.verifyOtp({ phone: '+491701234567', token, type: 'sms' });
  assert.is(verified.error, null);
  assert.ok(verified.data.user?.phone_confirmed_at);
  assert.is((await app.client().auth.signInWithPassword({ phone: '491701234567', password })).error, null);
  assert.is((await app.client().auth.signInWithOtp({ phone: '+491709999999' })).error, null);
  const second = (await nextRequest()).sms as Json;
  const made = await app.client().auth.verifyOtp({ phone: '491709999999', token: second.otp as string, type: 'sms' });
  assert.is(made.data.user?.phone, '491709999999');
});

test('a user changes the phone number with a code that goes to the new one', async () => {
  app.configure({ ...overHttp('SEND_SMS'), GOTRUE_EXTERNAL_PHONE_ENABLED: 'true' });
  const { supabase } = await app.signedUp();
  const { data } = await supabase.auth.updateUser({ phone: '+491705555555' });
  assert.is(data.user?.phone, '');
  const { sms } = (await nextRequest()) as { sms: Json };
  assert.is(sms.sms_type, 'phone_change');
  await supabase.auth.resend({ type: 'phone_change', phone: '+491705555555' });
  const again = (await nextRequest()).sms as Json;
  const verified = await supabase.auth.verifyOtp({
    phone: '+491705555555',
    token: again.otp as string,
    type: 'phone_change',
  });
  assert.is(verified.data.user?.phone, '491705555555');
  assert.equal(verified.data.user?.app_metadata.providers, ['email', 'phone']);
});

test('a code for a former number of the user is rejected', async () => {
  app.configure({ ...overHttp('SEND_SMS'), GOTRUE_EXTERNAL_PHONE_ENABLED: 'true' });
  const { data } = await app.client().auth.signUp({ phone: '+491701111111', password });
  const userId = data.user?.id as string;
  const { sms } = (await nextRequest()) as { sms: Json };
  await app.owner.query("update auth.users set phone = '491702222222' where id = $1", [userId]);
  const { error } = await app.client().auth.verifyOtp({ phone: '491701111111', token: sms.otp as string, type: 'sms' });
  assert.is(error?.code, 'otp_expired');
  assert.is((await app.admin().getUserById(userId)).data.user?.phone_confirmed_at, undefined);
});

test('a phone number for tests has a fixed code and gets no message', async () => {
  app.configure({ GOTRUE_EXTERNAL_PHONE_ENABLED: 'true', GOTRUE_SMS_TEST_OTP: '491700000000:123456' });
  const supabase = app.client();
  await supabase.auth.signInWithOtp({ phone: '491700000000' });
  // The code is valid without a message.
  await until(async () => {
    const { rowCount } = await app.owner.query("select from auth.one_time_tokens where relates_to = '491700000000'");
    return rowCount === 1;
  }, 'the code');
  const { error } = await supabase.auth.verifyOtp({ phone: '491700000000', token: '123456', type: 'sms' });
  assert.is(error, null);
});

test('a password hook may reject a right password and end every session', async () => {
  app.configure(overHttp('PASSWORD_VERIFICATION_ATTEMPT'));
  const { supabase, email, userId } = await app.signedUp();
  await app.client().auth.signInWithPassword({ email, password: 'wrong horse' });
  assert.equal(requests.at(-1), { user_id: userId, valid: false });
  answer = () => ({ body: { decision: 'reject', message: 'Too often', should_logout_user: true } });
  const { error } = await app.client().auth.signInWithPassword({ email, password });
  assert.is(error?.message, 'Too often');
  const { body } = await app.ask('GET', '/user', { token: (await sessionOf(supabase)).access_token });
  assert.is(body.error_code, 'session_not_found');
});

test('a second-factor hook that rejects an attempt ends every session', async () => {
  app.configure(overHttp('MFA_VERIFICATION_ATTEMPT'));
  const { supabase } = await app.signedUp();
  const { data } = await supabase.auth.mfa.enroll({ factorType: 'totp' });
  answer = () => ({ body: { decision: 'reject', message: 'No more' } });
  const { error } = await supabase.auth.mfa.challengeAndVerify({ factorId: data?.id as string, code: '000000' });
  assert.equal([error?.code, error?.message], ['mfa_verification_rejected', 'No more']);
  assert.is(requests.at(-1)?.valid, false);
});

test('a hook with an invalid URI or secret is reported as a problem and not called', async () => {
  app.configure({
    ...overHttp('SEND_EMAIL'),
    GOTRUE_HOOK_SEND_EMAIL_URI: 'http://10.0.0.1/hook',
    GOTRUE_HOOK_SEND_SMS_ENABLED: 'true',
    GOTRUE_HOOK_SEND_SMS_URI: hookUrl,
    GOTRUE_HOOK_SEND_SMS_SECRETS: 'v1,whsec_c2hvcnQ=',
  });
  const { body } = await app.ask('GET', '/settings', { token: app.tenant.serviceRoleKey });
  assert.equal([...new Set((body.config_problems as { key: string }[]).map(({ key }) => key))].sort(), [
    'GOTRUE_HOOK_SEND_EMAIL_URI',
    'GOTRUE_HOOK_SEND_SMS_SECRETS',
  ]);
  await app.signedUp();
});

test('the log contains no secret of a hook and no code', () => {
  // uvu treats a text literally, and a base64 digit may be a plus sign.
  assert.not.match(harness.logged.join('\n'), secret.toString('base64').slice(0, 20));
});

test.run();
