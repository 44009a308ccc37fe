import { createHash } from 'node:crypto';
import type { SupabaseClient } from '@supabase/supabase-js';
import { decodeJwt } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, landing, password, sessionOf, startHarness } from './testing/harness.js';
import { type Provider, startProvider } from './testing/provider.js';

let harness: Harness;
let app: AuthProject;
let provider: Provider;
const SITE = 'https://app.example.com';

test.before(async () => {
  harness = await startHarness();
  provider = await startProvider();
  app = await harness.project('oauth', settings());
});
test.after(async () => {
  await harness?.close();
  await provider?.close();
});

const settings = () => ({
  ...provider.settings,
  GOTRUE_SITE_URL: SITE,
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: 'true',
  GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED: 'true',
});

let count = 0;
const somebody = (email = app.newEmail()) => ({ sub: String(++count), email, email_verified: true, name: 'Al' });

/** Follows a browser to auth, to the provider, back, and on to the app. */
async function browse(url: string) {
  const toProvider = url.startsWith(provider.issuer) ? url : await locationOf(url);
  const back = await provider.visit(toProvider);
  return { back, ...landing(await locationOf(back)) };
}
const locationOf = async (url: string) => (await fetch(url, { redirect: 'manual' })).headers.get('location') as string;
const authorize = (name: string, more = '') => `${app.url}/auth/v1/authorize?provider=${name}${more}`;

for (const name of ['company', 'github']) {
  test(`a person signs up by ${name}, and is the same user at the next sign-in`, async () => {
    provider.person = somebody();
    const first = await browse(authorize(name));
    assert.is(first.url.origin, SITE);
    assert.ok(first.fragment.get('provider_token'));
    const { data } = await app.client().auth.getUser(first.fragment.get('access_token') as string);
    assert.is(data.user?.email, provider.person.email);
    assert.ok(data.user?.email_confirmed_at);
    assert.equal(data.user?.app_metadata, { provider: name, providers: [name] });
    assert.is(data.user?.user_metadata.full_name, 'Al');
    const second = await browse(authorize(name));
    const again = await app.client().auth.getUser(second.fragment.get('access_token') as string);
    assert.is(again.data.user?.id, data.user?.id);
  });
}

test('with PKCE the app gets a code, and the tokens of the provider with the session', async () => {
  provider.person = somebody();
  const supabase = app.pkceClient();
  const { data } = await supabase.auth.signInWithOAuth({
    provider: 'github',
    options: { skipBrowserRedirect: true, redirectTo: `${SITE}/done?x=1` },
  });
  const { url, query } = await browse(data.url as string);
  assert.is(url.pathname, '/done');
  assert.is(query.get('x'), '1');
  const exchanged = await supabase.auth.exchangeCodeForSession(query.get('code') as string);
  assert.is(exchanged.error, null);
  assert.ok(exchanged.data.session?.provider_token);
  assert.ok(exchanged.data.session?.provider_refresh_token);
  const { amr } = decodeJwt(exchanged.data.session?.access_token as string);
  assert.is((amr as { method: string }[])[0]?.method, 'oauth');
});

test('a verified address links a provider to the user with that address, and an unverified one does not', async () => {
  app.configure({ ...settings(), ...harness.mailbox.settings });
  const { email, userId } = await confirmed();
  provider.person = somebody(email);
  const linked = await browse(authorize('company'));
  const { data } = await app.client().auth.getUser(linked.fragment.get('access_token') as string);
  assert.is(data.user?.id, userId);
  assert.equal(data.user?.app_metadata.providers, ['email', 'company']);
  assert.is((await app.client().auth.signInWithPassword({ email, password })).error, null);
  const other = await confirmed();
  provider.person = { ...somebody(other.email), email_verified: false };
  const refused = await browse(authorize('company'));
  assert.is(refused.fragment.get('access_token'), null);
  assert.is(refused.fragment.get('error_code'), 'email_exists');
  app.configure(settings());
});

/** Confirms the address with the code of the mail. */
async function confirmed() {
  const { supabase, email, userId } = await app.signedUp();
  const { code } = await harness.mailbox.next(email);
  assert.is((await supabase.auth.verifyOtp({ email, token: code, type: 'signup' })).error, null);
  return { email, userId };
}

for (const [what, claims] of [
  ['has proven another address', () => somebody()],
  ['has not proven it', (email: string) => ({ ...somebody(email), email_verified: false })],
] as const) {
  test(`an unverified user, of whom a provider ${what}, loses all credentials to a verified person`, async () => {
    const { email, userId, supabase } = await app.signedUp();
    provider.person = claims(email);
    await link(supabase);
    provider.person = somebody(email);
    const { fragment } = await browse(authorize('company'));
    const { data } = await app.client().auth.getUser(fragment.get('access_token') as string);
    assert.is(data.user?.id, userId);
    assert.equal(data.user?.app_metadata.providers, ['company']);
    assert.is((await app.client().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
    assert.ok((await supabase.auth.getUser()).error);
  });
}

test('a user with a verified address keeps all credentials when another provider verifies it as well', async () => {
  provider.person = somebody();
  const { fragment } = await browse(authorize('company'));
  const token = fragment.get('access_token') as string;
  assert.is((await app.ask('PUT', '/user', { token, body: { password } })).status, 200);
  await browse(authorize('github'));
  const { data } = await app.client().auth.signInWithPassword({ email: provider.person.email as string, password });
  assert.equal(data.user?.app_metadata.providers, ['company', 'github']);
});

test('an unverified earlier user can no longer sign in once another user has verified the address', async () => {
  const { supabase, email, userId } = await app.signedUp();
  await app.owner.query(
    "update auth.users set email_confirmed_at = null, phone = '491704444444', phone_confirmed_at = now() where id = $1",
    [userId],
  );
  const begun = await supabase.auth.linkIdentity({ provider: 'github', options: { skipBrowserRedirect: true } });
  provider.person = somebody(email);
  const { fragment } = await browse(authorize('company'));
  const { data } = await app.client().auth.getUser(fragment.get('access_token') as string);
  assert.is(data.user?.id, userId);
  assert.is(data.user?.phone, '');
  assert.is(data.user?.phone_confirmed_at, undefined);
  provider.person = somebody();
  const linked = await browse(begun.data.url as string);
  assert.is(linked.fragment.get('error_code'), 'bad_oauth_state');
  assert.equal(data.user?.app_metadata.providers, ['company']);
  assert.is((await app.client().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
});

test('an OAuth state works once, until it expires, and only if auth issued it', async () => {
  provider.person = somebody();
  const { back } = await browse(authorize('company'));
  const replayed = landing(await locationOf(back));
  assert.is(replayed.fragment.get('error_code'), 'bad_oauth_state');
  for (const state of ['5f6e0c43-0000-4000-8000-000000000000', "x' or true --", '']) {
    const made = landing(await locationOf(`${app.url}/auth/v1/callback?code=x&state=${encodeURIComponent(state)}`));
    assert.match(made.fragment.get('error_code') as string, /^bad_oauth_(state|callback)$/);
    assert.is(made.url.origin, SITE);
  }
  const late = await provider.visit(await locationOf(authorize('company')));
  await app.owner.query("update auth.flow_state set created_at = created_at - interval '6 minutes'");
  assert.is(landing(await locationOf(late)).fragment.get('error_code'), 'bad_oauth_state');
});

test('the OAuth code of one sign-in does not complete another sign-in', async () => {
  provider.person = somebody();
  const mine = new URL(await provider.visit(await locationOf(authorize('company'))));
  const theirs = new URL(await provider.visit(await locationOf(authorize('company'))));
  mine.searchParams.set('code', theirs.searchParams.get('code') as string);
  const { fragment } = landing(await locationOf(mine.href));
  assert.is(fragment.get('access_token'), null);
  assert.is(fragment.get('error'), 'server_error');
});

test('an error of the provider reaches the app unchanged', async () => {
  const url = new URL(await locationOf(authorize('company')));
  const state = url.searchParams.get('state');
  const back = `${app.url}/auth/v1/callback?error=access_denied&error_description=no+thanks&state=${state}`;
  const { fragment, query } = landing(await locationOf(back));
  assert.is(fragment.get('error_description'), 'no thanks');
  assert.is(query.get('error'), 'access_denied');
});

test('a provider that is not enabled is rejected', async () => {
  assert.is((await app.ask('GET', '/authorize?provider=gitlab')).body.error_code, 'validation_failed');
  assert.is((await app.ask('GET', '/authorize?provider=constructor')).body.error_code, 'validation_failed');
  const { data } = await app.client().auth.signInWithIdToken({ provider: 'company', token: 'x' });
  assert.is(data.session, null);
});

test('an id_token with its nonce signs the user in', async () => {
  const nonce = 'a nonce';
  const hashed = createHash('sha256').update(nonce).digest('hex');
  const person = somebody();
  const token = await provider.idToken({ ...person, nonce: hashed });
  const { data, error } = await app.client().auth.signInWithIdToken({ provider: 'company', token, nonce });
  assert.is(error, null);
  assert.is(data.user?.email, person.email);
});

for (const { what, make } of [
  { what: 'of another issuer', make: () => provider.idToken(somebody(), { issuer: 'https://evil.example' }) },
  { what: 'for another app', make: () => provider.idToken(somebody(), { audience: 'another' }) },
  { what: 'that is expired', make: () => provider.idToken(somebody(), { expires: -60 }) },
  { what: 'with a nonce that nobody brought', make: () => provider.idToken({ ...somebody(), nonce: 'x' }) },
  {
    what: 'without a signature',
    make: async () =>
      `${btoa('{"alg":"none"}')}.${btoa(JSON.stringify({ ...somebody(), iss: provider.issuer, aud: 'the-app' }))}.`,
  },
]) {
  test(`an id_token ${what} is rejected`, async () => {
    const { data, error } = await app.client().auth.signInWithIdToken({ provider: 'company', token: await make() });
    assert.is(data.session, null);
    assert.is(error?.status, 400);
  });
}

test('a provider whose document names another issuer is rejected', async () => {
  app.configure({ ...settings(), GOTRUE_EXTERNAL_COMPANY_URL: `${provider.issuer}/other` });
  assert.is((await app.ask('GET', '/authorize?provider=company')).status, 500);
  const token = await provider.idToken(somebody());
  const { data } = await app.client().auth.signInWithIdToken({ provider: 'company', token });
  assert.is(data.session, null);
  app.configure(settings());
});

async function link(supabase: SupabaseClient) {
  const { data, error } = await supabase.auth.linkIdentity({
    provider: 'github',
    options: { skipBrowserRedirect: true },
  });
  assert.is(error, null);
  return browse(data.url as string);
}

test('a user links and unlinks an identity, but can’t unlink the last one', async () => {
  const { supabase, userId } = await app.signedUp();
  provider.person = somebody();
  await link(supabase);
  const { data } = await supabase.auth.getUserIdentities();
  assert.equal(
    data?.identities.map(({ provider: name }) => name),
    ['email', 'github'],
  );
  const github = data?.identities[1];
  assert.ok(github);
  assert.is(github.user_id, userId);
  assert.is((await supabase.auth.unlinkIdentity(github)).error, null);
  const [last] = (await supabase.auth.getUserIdentities()).data?.identities ?? [];
  assert.ok(last);
  assert.is((await supabase.auth.unlinkIdentity(last)).error?.code, 'single_identity_not_deletable');
  assert.is((await supabase.auth.unlinkIdentity(github)).error?.code, 'identity_not_found');
});

test('a user cannot sign in with the address of an unlinked identity', async () => {
  const { supabase, userId } = await app.signedUp();
  provider.person = somebody();
  await link(supabase);
  const [email] = (await supabase.auth.getUserIdentities()).data?.identities ?? [];
  assert.is(email?.provider, 'email');
  assert.is((await supabase.auth.unlinkIdentity(email as never)).error, null);
  const { rows } = await app.owner.query(
    'select email, email_confirmed_at is not null as proven from auth.users where id = $1',
    [userId],
  );
  assert.equal(rows, [{ email: provider.person.email, proven: true }]);
});

const unlinkEmail = async (supabase: SupabaseClient) => {
  const identities = (await supabase.auth.getUserIdentities()).data?.identities;
  const { error } = await supabase.auth.unlinkIdentity(identities?.find(({ provider: by }) => by === 'email') as never);
  assert.is(error, null);
  return decodeJwt((await supabase.auth.refreshSession()).data.session?.access_token as string).email;
};

test('an unverified address does not replace the address of an unlinked identity', async () => {
  const { supabase } = await app.signedUp();
  provider.person = { ...somebody(), email_verified: false };
  await link(supabase);
  assert.is((await supabase.auth.getUserIdentities()).data?.identities.length, 2);
  assert.is(await unlinkEmail(supabase), '');
});

test('an address from sign-up metadata is in no identity, and does not replace another', async () => {
  app.configure({ ...settings(), GOTRUE_EXTERNAL_PHONE_ENABLED: 'true', GOTRUE_SMS_AUTOCONFIRM: 'true' });
  const supabase = app.client();
  const claimed = { email: app.newEmail(), phone: '49', nick: 'Al', email_verified: true };
  const { data } = await supabase.auth.signUp({ phone: '491703333333', password, options: { data: claimed } });
  const identity = data.user?.identities?.[0];
  const { sub: _, ...identityData } = identity?.identity_data ?? {};
  assert.equal(identityData, { phone: '491703333333', nick: 'Al', email_verified: false, phone_verified: true });
  assert.is((identity as { email?: string | null }).email, null);
  assert.is((await supabase.auth.updateUser({ email: app.newEmail() })).error, null);
  assert.is(await unlinkEmail(supabase), '');
  app.configure(settings());
});

test('an address that the provider has not verified signs the user in only after a confirmation', async () => {
  app.configure({ ...settings(), ...harness.mailbox.settings, GOTRUE_SMTP_MAX_FREQUENCY: '1m' });
  try {
    const person = somebody();
    // A returning person has the same limit on mails as others.
    for (const refusal of ['provider_email_needs_verification', 'over_email_send_rate_limit']) {
      provider.person = { ...person, email_verified: false };
      const { fragment } = await browse(authorize('company'));
      assert.is(fragment.get('access_token'), null);
      assert.is(fragment.get('error_code'), refusal);
    }
    provider.person = person;
    const { fragment } = await browse(authorize('company'));
    assert.ok(fragment.get('access_token'));
  } finally {
    app.configure(settings());
  }
});

test('one of two identities stays when a user unlinks both at once', async () => {
  const { supabase } = await app.signedUp();
  provider.person = somebody();
  await link(supabase);
  const { access_token: token } = await sessionOf(supabase);
  const identities = (await supabase.auth.getUserIdentities()).data?.identities ?? [];
  const answers = await Promise.all(
    identities.map(({ identity_id }) => app.ask('DELETE', `/user/identities/${identity_id}`, { token })),
  );
  assert.equal(answers.map(({ status }) => status).sort(), [200, 422]);
});

test('an identity of another user can’t be linked or unlinked', async () => {
  const mine = await app.signedUp();
  const theirs = await app.signedUp();
  provider.person = somebody();
  await link(theirs.supabase);
  const { fragment } = await link(mine.supabase);
  assert.is(fragment.get('error_code'), 'identity_already_exists');
  const [, github] = (await theirs.supabase.auth.getUserIdentities()).data?.identities ?? [];
  assert.ok(github);
  assert.is((await mine.supabase.auth.unlinkIdentity(github)).error?.code, 'identity_not_found');
});

test('linking of identities is disabled unless the project enables it', async () => {
  const { supabase } = await app.signedUp();
  app.configure({ ...settings(), GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: 'false' });
  const { error } = await supabase.auth.linkIdentity({ provider: 'github', options: { skipBrowserRedirect: true } });
  assert.is(error?.code, 'manual_linking_disabled');
  app.configure(settings());
});

test('an anonymous user who adds an identity or an address keeps the user id', async () => {
  const supabase = app.client();
  const { data } = await supabase.auth.signInAnonymously({ options: { data: { cart: 7 } } });
  assert.is(data.user?.is_anonymous, true);
  assert.is(decodeJwt(data.session?.access_token as string).is_anonymous, true);
  provider.person = somebody();
  await link(supabase);
  const converted = (await supabase.auth.getUser()).data.user;
  assert.is(converted?.id, data.user?.id);
  assert.is(converted?.is_anonymous, false);
  assert.is(converted?.email, provider.person.email);
  assert.is(converted?.user_metadata.cart, 7);

  const second = app.client();
  const before = (await second.auth.signInAnonymously()).data.user;
  const refused = await second.auth.updateUser({ password });
  assert.is(refused.error?.code, 'validation_failed');
  const email = app.newEmail();
  const { data: updated, error } = await second.auth.updateUser({ email, password });
  assert.is(error, null);
  assert.is(updated.user?.is_anonymous, false);
  assert.is((await app.client().auth.signInWithPassword({ email, password })).data.user?.id, before?.id);
});

test('the log contains no secret of a provider or of a sign-in', () => {
  assert.not.match(harness.logged.join('\n'), /provider-canary|access_token=/);
});

test.run();
