/**
 * Calls the whole public API of an unmodified auth-js at a project's URL. A hook in the project's database stores the
 * mails, so no mail server is needed. The provider with id_tokens is used only if the platform may connect to it.
 */
import { randomUUID } from 'node:crypto';
import { until } from '@slipway/testing';
import { type AuthError, GoTrueAdminApi, GoTrueClient } from '@supabase/auth-js';
import { Secret, TOTP } from 'otpauth';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Issuer } from './issuer.js';
import { type Inventory, Recorder } from './recorder.js';
import { good, type WalkedProject } from './walked-project.js';

const AUTH: Inventory<GoTrueClient> = {
  initialize: 'works',
  isThrowOnErrorEnabled: 'works',
  signUp: 'works',
  signInAnonymously: 'works',
  signInWithPassword: 'works',
  signInWithOtp: 'works',
  signInWithOAuth: 'works',
  signInWithIdToken: 'works',
  signInWithSSO: 'refused',
  signInWithWeb3: 'refused',
  signInWithPasskey: 'browser',
  registerPasskey: 'browser',
  exchangeCodeForSession: 'works',
  verifyOtp: 'works',
  resend: 'works',
  reauthenticate: 'works',
  resetPasswordForEmail: 'works',
  getSession: 'works',
  setSession: 'works',
  refreshSession: 'works',
  onAuthStateChange: 'works',
  getUser: 'works',
  updateUser: 'works',
  getClaims: 'works',
  getUserIdentities: 'works',
  linkIdentity: 'works',
  unlinkIdentity: 'works',
  startAutoRefresh: 'works',
  stopAutoRefresh: 'works',
  signOut: 'works',
  dispose: 'works',
};
const MFA: Inventory<GoTrueClient['mfa']> = {
  enroll: 'works',
  challenge: 'works',
  verify: 'works',
  challengeAndVerify: 'works',
  listFactors: 'works',
  getAuthenticatorAssuranceLevel: 'works',
  unenroll: 'works',
};
const WEBAUTHN: Inventory<GoTrueClient['mfa']['webauthn']> = {
  enroll: 'refused',
  challenge: 'refused',
  verify: 'refused',
  authenticate: 'browser',
  register: 'browser',
};
const PASSKEY: Inventory<GoTrueClient['passkey']> = {
  startRegistration: 'refused',
  verifyRegistration: 'refused',
  startAuthentication: 'refused',
  verifyAuthentication: 'refused',
  list: 'refused',
  update: 'refused',
  delete: 'refused',
};
const OAUTH: Inventory<GoTrueClient['oauth']> = {
  getAuthorizationDetails: 'refused',
  approveAuthorization: 'refused',
  denyAuthorization: 'refused',
  listGrants: 'refused',
  revokeGrant: 'refused',
};
const ADMIN: Inventory<GoTrueAdminApi> = {
  createUser: 'works',
  listUsers: 'works',
  getUserById: 'works',
  updateUserById: 'works',
  inviteUserByEmail: 'works',
  generateLink: 'works',
  signOut: 'works',
  deleteUser: 'works',
};
const ADMIN_MFA: Inventory<GoTrueAdminApi['mfa']> = { listFactors: 'works', deleteFactor: 'works' };
const ADMIN_OAUTH: Inventory<GoTrueAdminApi['oauth']> = {
  listClients: 'refused',
  createClient: 'refused',
  getClient: 'refused',
  updateClient: 'refused',
  deleteClient: 'refused',
  regenerateClientSecret: 'refused',
};
const ADMIN_PROVIDERS: Inventory<GoTrueAdminApi['customProviders']> = {
  listProviders: 'refused',
  createProvider: 'refused',
  getProvider: 'refused',
  updateProvider: 'refused',
  deleteProvider: 'refused',
};
const ADMIN_PASSKEY: Inventory<GoTrueAdminApi['passkey']> = { listPasskeys: 'refused', deletePasskey: 'refused' };

const MAILS_SQL = `
  create table mails (id bigint generated always as identity, email text, mail jsonb);
  create function keep_mail(event jsonb) returns jsonb language plpgsql
    security definer set search_path = '' as $$ begin
    insert into public.mails (email, mail) values (event -> 'user' ->> 'email', event -> 'email_data');
    return '{}'; end $$;
  revoke execute on function keep_mail from public, anon, authenticated;
  grant execute on function keep_mail to supabase_auth_admin;
  revoke all on mails from anon, authenticated;
`;
const SETTINGS = {
  GOTRUE_SITE_URL: 'https://app.example.com',
  GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED: 'true',
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: 'true',
  GOTRUE_SMTP_MAX_FREQUENCY: '0s',
  GOTRUE_RATE_LIMIT_EMAIL_SENT: '1000',
  GOTRUE_HOOK_SEND_EMAIL_ENABLED: 'true',
  GOTRUE_HOOK_SEND_EMAIL_URI: 'pg-functions://postgres/public/keep_mail',
  GOTRUE_EXTERNAL_GITHUB_ENABLED: 'true',
  GOTRUE_EXTERNAL_GITHUB_CLIENT_ID: 'the-app',
  GOTRUE_EXTERNAL_GITHUB_SECRET: 'a secret of the app at GitHub',
};
const PASSWORD = 'a long password';

interface Mail {
  token: string;
  token_hash: string;
  email_action_type: string;
}

export function walkAuth(test: Test, given: () => WalkedProject, issuer: () => Issuer | undefined): void {
  const recorder = new Recorder({
    GoTrueClient: AUTH,
    mfa: MFA,
    webauthn: WEBAUTHN,
    passkey: PASSKEY,
    oauth: OAUTH,
    admin: ADMIN,
    'admin.mfa': ADMIN_MFA,
    'admin.oauth': ADMIN_OAUTH,
    'admin.customProviders': ADMIN_PROVIDERS,
    'admin.passkey': ADMIN_PASSKEY,
  });
  const url = () => `${given().project.project_url}/auth/v1`;
  const options = (key: string) => ({
    url: url(),
    headers: given().headers(key),
    fetch: given().platform.network.fetch,
    experimental: { passkey: true },
  });
  function newClient(flowType: 'implicit' | 'pkce' = 'implicit') {
    const session = { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false, flowType };
    const client = new GoTrueClient({ ...options(given().project.anon_key), ...session });
    return {
      auth: recorder.watch(client, 'GoTrueClient'),
      mfa: recorder.watch(client.mfa, 'mfa'),
      webauthn: recorder.watch(client.mfa.webauthn, 'webauthn'),
      passkey: recorder.watch(client.passkey, 'passkey'),
      oauth: recorder.watch(client.oauth, 'oauth'),
    };
  }
  function admin() {
    const client = new GoTrueAdminApi(options(given().project.service_role_key));
    return {
      users: recorder.watch(client, 'admin'),
      mfa: recorder.watch(client.mfa, 'admin.mfa'),
      oauth: recorder.watch(client.oauth, 'admin.oauth'),
      providers: recorder.watch(client.customProviders, 'admin.customProviders'),
      passkey: recorder.watch(client.passkey, 'admin.passkey'),
    };
  }
  const newEmail = () => `${randomUUID()}@example.com`;
  async function signedUp() {
    const { project, person } = given();
    const email = newEmail();
    const clients = newClient();
    const { user } = good(await admin().users.createUser({ email, password: PASSWORD, email_confirm: true }));
    const { session } = good(await clients.auth.signInWithPassword({ email, password: PASSWORD }));
    return { ...clients, email, user: user as NonNullable<typeof user>, session, project, person };
  }
  const nextMail = (email: string): Promise<Mail> =>
    until(async () => {
      const { person, project } = given();
      const { rows } = await person.query(project.id, `delete from mails where email = '${email}' returning mail`);
      return rows.at(-1)?.mail as Mail | undefined;
    }, `a mail to ${email}`);

  test('auth-js: an address is verified by a mailed code, which can be sent again, and its user signs in', async () => {
    const { person, project, configureAuth, platform } = given();
    await person.query(project.id, MAILS_SQL);
    await configureAuth({ ...SETTINGS, ...issuer()?.settings });
    await until(async () => {
      const headers = given().headers(project.anon_key);
      const settings = await platform.network.fetch(`${url()}/settings`, { headers });
      const { mailer_autoconfirm, external } = (await settings.json()) as Record<string, Record<string, boolean>>;
      return external?.anonymous_users && external.github && mailer_autoconfirm === (false as never);
    }, 'the settings are known');

    const { auth } = newClient();
    const email = newEmail();
    assert.is((await auth.initialize()).error, null);
    assert.is(auth.isThrowOnErrorEnabled(), false);
    const events: string[] = [];
    const { subscription } = auth.onAuthStateChange((event) => void events.push(event)).data;
    const up = good(await auth.signUp({ email, password: PASSWORD, options: { data: { nick: 'Al' } } }));
    assert.is(up.session, null);
    await nextMail(email);
    assert.is((await auth.resend({ type: 'signup', email })).error, null);
    const { token } = await nextMail(email);
    const proven = good(await auth.verifyOtp({ email, token, type: 'email' }));
    assert.is(proven.user?.user_metadata.nick, 'Al');

    const wrong = await auth.signInWithPassword({ email, password: 'another password' });
    assert.is(wrong.error?.code, 'invalid_credentials');
    const { session } = good(await auth.signInWithPassword({ email, password: PASSWORD }));
    assert.is(good(await auth.getSession()).session?.access_token, session.access_token);
    assert.is(good(await auth.getUser()).user.email, email);
    assert.is(good(await auth.getClaims()).claims.email, email);
    const changed = good(await auth.updateUser({ data: { nick: 'Bo' } }));
    assert.is(changed.user.user_metadata.nick, 'Bo');
    await auth.startAutoRefresh();
    await auth.stopAutoRefresh();
    const refreshed = good(await auth.refreshSession());
    assert.is.not(refreshed.session?.refresh_token, session.refresh_token);
    const other = newClient().auth;
    const set = good(await other.setSession(refreshed.session as NonNullable<typeof refreshed.session>));
    assert.is(set.user?.email, email);
    assert.is((await auth.reauthenticate()).error, null);
    assert.is((await nextMail(email)).email_action_type, 'reauthentication');
    assert.is((await auth.signOut()).error, null);
    assert.ok((await other.refreshSession()).error, 'the session has ended for all clients');
    assert.ok(['SIGNED_IN', 'USER_UPDATED', 'TOKEN_REFRESHED', 'SIGNED_OUT'].every((event) => events.includes(event)));
    subscription.unsubscribe();
    await auth.dispose();
  });

  test('auth-js: a user signs in by a mailed link with PKCE, by recovery, anonymously and by a provider', async () => {
    const { auth } = newClient('pkce');
    const email = newEmail();
    assert.is((await auth.signInWithOtp({ email })).error, null);
    const { token_hash, email_action_type } = await nextMail(email);
    const link = new URL(`${url()}/verify`);
    link.search = new URLSearchParams({ token: token_hash, type: email_action_type }).toString();
    const landed = await given().platform.network.fetch(link, { redirect: 'manual' });
    const code = new URL(landed.headers.get('location') as string).searchParams.get('code') as string;
    assert.ok(code, landed.headers.get('location') as string);
    assert.is(good(await auth.exchangeCodeForSession(code)).user.email, email);

    const forgetful = newClient().auth;
    assert.is((await forgetful.resetPasswordForEmail(email)).error, null);
    const { token } = await nextMail(email);
    good(await forgetful.verifyOtp({ email, token, type: 'recovery' }));

    const nobody = newClient().auth;
    assert.is(good(await nobody.signInAnonymously()).user?.is_anonymous, true);
    const skipBrowserRedirect = { options: { skipBrowserRedirect: true } };
    const begun = good(await newClient().auth.signInWithOAuth({ provider: 'github', ...skipBrowserRedirect }));
    const sent = await given().platform.network.fetch(begun.url as string, { redirect: 'manual' });
    assert.match(sent.headers.get('location') as string, /^https:\/\/github\.com\/login\/oauth\/authorize\?/);
    const linking = good(await nobody.linkIdentity({ provider: 'github', ...skipBrowserRedirect }));
    assert.match(String(linking.url), /^https:\/\/github\.com\/login\/oauth\/authorize\?/);
  });

  test('auth-js: a user with a provider’s id_token signs in with it, links it and unlinks it', async () => {
    const company = issuer();
    const idToken = async () => {
      const claims = { sub: randomUUID(), email: newEmail(), email_verified: true };
      return { provider: 'company', token: (await company?.idToken(claims)) ?? 'no-token' };
    };
    const known = await signedUp();
    const [signedIn, linked] = [
      await newClient().auth.signInWithIdToken(await idToken()),
      await known.auth.linkIdentity(await idToken()),
    ];
    const { identities } = good(await known.auth.getUserIdentities());
    assert.equal(identities.map(({ provider }) => provider).sort(), company ? ['company', 'email'] : ['email']);
    assert.equal([Boolean(signedIn.error), Boolean(linked.error)], [!company, !company]);
    const [last] = identities.filter(({ provider }) => provider === (company ? 'company' : 'email'));
    const unlinked = await known.auth.unlinkIdentity(last as NonNullable<typeof last>);
    assert.is(unlinked.error?.code, company ? undefined : 'single_identity_not_deletable');
  });

  test('auth-js: a second factor is enrolled, verified, listed and unenrolled', async () => {
    const { mfa } = await signedUp();
    const { id: factorId, totp } = good(await mfa.enroll({ factorType: 'totp' }));
    const code = (steps: number) =>
      new TOTP({ secret: Secret.fromBase32(totp.secret) }).generate({ timestamp: Date.now() + steps * 30_000 });
    const { id: challengeId } = good(await mfa.challenge({ factorId }));
    good(await mfa.verify({ factorId, challengeId, code: code(0) }));
    good(await mfa.challengeAndVerify({ factorId, code: code(1) }));
    assert.is(good(await mfa.getAuthenticatorAssuranceLevel()).currentLevel, 'aal2');
    assert.is(good(await mfa.listFactors()).totp[0]?.id, factorId);
    good(await mfa.unenroll({ factorId }));
  });

  test('auth-js: an administrator makes, finds, changes, invites and removes users, links and factors', async () => {
    const { users, mfa } = admin();
    const email = newEmail();
    const { user } = good(await users.createUser({ email, password: PASSWORD, email_confirm: true }));
    const id = (user as NonNullable<typeof user>).id;
    assert.ok(good(await users.listUsers({ perPage: 1000 })).users.some((each) => each.id === id));
    assert.is(good(await users.getUserById(id)).user?.email, email);
    const changed = good(await users.updateUserById(id, { app_metadata: { team: 'x' } }));
    assert.is(changed.user?.app_metadata.team, 'x');
    const { properties } = good(await users.generateLink({ type: 'magiclink', email }));
    const { auth, mfa: ownFactors } = newClient();
    const { session } = good(await auth.verifyOtp({ email, token: properties?.email_otp as string, type: 'email' }));
    const factor = good(await ownFactors.enroll({ factorType: 'totp' }));
    assert.is(good(await mfa.listFactors({ userId: id })).factors[0]?.id, factor.id);
    good(await mfa.deleteFactor({ userId: id, id: factor.id }));
    assert.is((await users.signOut(session?.access_token as string)).error, null);
    assert.ok((await auth.refreshSession()).error);
    const guest = newEmail();
    good(await users.inviteUserByEmail(guest));
    assert.is((await nextMail(guest)).email_action_type, 'invite');
    good(await users.deleteUser(id));
    assert.is((await users.getUserById(id)).error?.code, 'user_not_found');
  });

  test('auth-js: absent features are rejected by name, and browser features send no request', async () => {
    const { auth, webauthn, passkey, oauth } = await signedUp();
    const { oauth: clients, providers, passkey: passkeys } = admin();
    const id = randomUUID();
    const credential = { type: 'create', credential_response: { toJSON: () => ({}) } } as never;
    const webauthnOf = { factorId: id, challengeId: id, webauthn: { ...(credential as object), rpId: 'x' } } as never;
    type Answer = PromiseLike<{ error: Pick<AuthError, 'code'> | null }>;
    const refused: [code: string, Answer[]][] = [
      ['saml_provider_disabled', [auth.signInWithSSO({ domain: 'example.com' })]],
      [
        'web3_provider_disabled',
        [auth.signInWithWeb3({ chain: 'solana', message: 'x', signature: new Uint8Array(64) })],
      ],
      ['mfa_webauthn_enroll_not_enabled', [webauthn.enroll({ friendlyName: 'key' })]],
      [
        'mfa_factor_not_found',
        [webauthn.challenge({ factorId: id, webauthn: { rpId: 'x' } } as never), webauthn.verify(webauthnOf)],
      ],
      [
        'feature_disabled',
        [
          passkey.startRegistration(),
          passkey.verifyRegistration({ challengeId: id, credential }),
          passkey.startAuthentication(),
          passkey.verifyAuthentication({ challengeId: id, credential }),
          passkey.list(),
          passkey.update({ passkeyId: id, friendlyName: 'x' }),
          passkey.delete({ passkeyId: id }),
          oauth.getAuthorizationDetails(id),
          oauth.approveAuthorization(id, { skipBrowserRedirect: true }),
          oauth.denyAuthorization(id, { skipBrowserRedirect: true }),
          oauth.listGrants(),
          oauth.revokeGrant({ clientId: id }),
          clients.listClients(),
          clients.createClient({ client_name: 'x', redirect_uris: ['https://app.example.com'] }),
          clients.getClient(id),
          clients.updateClient(id, { client_name: 'y' }),
          clients.deleteClient(id),
          clients.regenerateClientSecret(id),
          providers.listProviders(),
          providers.createProvider({
            provider_type: 'oidc',
            identifier: 'custom:x',
            name: 'x',
            client_id: 'x',
            client_secret: 'x',
          }),
          providers.getProvider('custom:x'),
          providers.updateProvider('custom:x', { name: 'y' }),
          providers.deleteProvider('custom:x'),
          passkeys.listPasskeys({ userId: id }),
          passkeys.deletePasskey({ userId: id, passkeyId: id }),
        ],
      ],
    ];
    for (const [code, answers] of refused) {
      for (const [at, { error }] of (await Promise.all(answers)).entries())
        assert.is(error?.code, code, `${code} ${at}`);
    }
    for (const { error } of [
      await auth.signInWithPasskey(),
      await auth.registerPasskey(),
      await webauthn.authenticate({ factorId: id, webauthn: { rpId: 'x' } } as never),
      await webauthn.register({ friendlyName: 'key', webauthn: { rpId: 'x' } } as never),
    ]) {
      assert.ok(error);
    }
  });

  test('auth-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
