import type { SupabaseClient } from '@supabase/supabase-js';
import { Secret, TOTP } from 'otpauth';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, landing, password, startHarness } from './testing/harness.js';
import { type Provider, startProvider } from './testing/provider.js';

let harness: Harness;
let app: AuthProject;
let provider: Provider;

test.before(async () => {
  harness = await startHarness();
  provider = await startProvider();
  app = await harness.project('walked', {
    ...harness.mailbox.settings,
    ...provider.settings,
    GOTRUE_SITE_URL: 'https://app.example.com',
    GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED: 'true',
    GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: 'true',
    GOTRUE_EXTERNAL_PHONE_ENABLED: 'true',
    GOTRUE_SMS_TEST_OTP: '491700000000:123456',
  });
});
test.after(async () => {
  await harness?.close();
  await provider?.close();
});

/** Methods that send no request. */
const LOCAL = [
  'isThrowOnErrorEnabled',
  'initialize',
  'getSession',
  'onAuthStateChange',
  'startAutoRefresh',
  'stopAutoRefresh',
  'dispose',
  'fetchJwk',
];

type Outcome = { error: { message: string; code?: string | undefined } | null };
type Step = (state: State) => Promise<Outcome>;

interface State {
  supabase: SupabaseClient;
  email: string;
  userId: string;
  factorId: string;
  challengeId: string;
  secret: string;
}

const next = (email: string) => harness.mailbox.next(email);
const code = ({ secret }: State, steps = 0) =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });
/** Follows the browser's redirects to a provider. */
async function browse(url: string) {
  provider.person = {
    sub: crypto.randomUUID().replaceAll(/\D/g, '').slice(0, 9),
    email: app.newEmail(),
    email_verified: true,
  };
  const to = url.startsWith(provider.issuer) ? url : await locationOf(url);
  return landing(await locationOf(await provider.visit(to)));
}
const locationOf = async (url: string) => (await fetch(url, { redirect: 'manual' })).headers.get('location') as string;

/** Calls every method of auth-js that sends a request, in the order of a possible user. */
const AUTH: Record<string, Step> = {
  signUp: ({ supabase, email }) => supabase.auth.signUp({ email, password }),
  resend: async ({ supabase, email }) => {
    await next(email);
    return supabase.auth.resend({ type: 'signup', email });
  },
  verifyOtp: async ({ supabase, email }) =>
    supabase.auth.verifyOtp({ email, token: (await next(email)).code, type: 'email' }),
  signInWithPassword: ({ supabase, email }) => supabase.auth.signInWithPassword({ email, password }),
  getUser: ({ supabase }) => supabase.auth.getUser(),
  getClaims: ({ supabase }) => supabase.auth.getClaims(),
  refreshSession: ({ supabase }) => supabase.auth.refreshSession(),
  setSession: async ({ supabase }) => {
    const { session } = (await supabase.auth.getSession()).data;
    assert.ok(session);
    return supabase.auth.setSession(session);
  },
  updateUser: ({ supabase }) => supabase.auth.updateUser({ data: { nick: 'Al' } }),
  reauthenticate: ({ supabase }) => supabase.auth.reauthenticate(),
  getUserIdentities: ({ supabase }) => supabase.auth.getUserIdentities(),
  linkIdentity: async ({ supabase }) => {
    const linked = await supabase.auth.linkIdentity({ provider: 'github', options: { skipBrowserRedirect: true } });
    await browse(linked.data.url as string);
    return linked;
  },
  linkIdentityIdToken: async ({ supabase }) => {
    const token = await provider.idToken({ sub: crypto.randomUUID(), email: app.newEmail(), email_verified: true });
    return supabase.auth.linkIdentity({ provider: 'company' as never, token });
  },
  unlinkIdentity: async ({ supabase }) => {
    const identities = (await supabase.auth.getUserIdentities()).data?.identities ?? [];
    assert.is(identities.length, 3);
    return supabase.auth.unlinkIdentity(identities[1] as never);
  },
  resetPasswordForEmail: async ({ supabase, email }) => {
    // An earlier mail has the code for the change of password.
    await next(email);
    const outcome = await supabase.auth.resetPasswordForEmail(email);
    await next(email);
    return outcome;
  },
  signOut: ({ supabase }) => supabase.auth.signOut(),
  signInAnonymously: ({ supabase }) => supabase.auth.signInAnonymously(),
  signInWithOtp: async ({ supabase, email }) => {
    const outcome = await supabase.auth.signInWithOtp({ email });
    await next(email);
    return outcome;
  },
  signInWithIdToken: async ({ supabase }) =>
    supabase.auth.signInWithIdToken({
      provider: 'company',
      token: await provider.idToken({ sub: '900', email: app.newEmail(), email_verified: true }),
    }),
  signInWithOAuth: async ({ supabase }) => {
    const outcome = await supabase.auth.signInWithOAuth({ provider: 'github', options: { skipBrowserRedirect: true } });
    assert.ok((await browse(outcome.data.url as string)).fragment.get('access_token'));
    return outcome;
  },
  exchangeCodeForSession: async () => {
    const supabase = app.pkceClient();
    const { data } = await supabase.auth.signInWithOAuth({
      provider: 'github',
      options: { skipBrowserRedirect: true },
    });
    return supabase.auth.exchangeCodeForSession((await browse(data.url as string)).query.get('code') as string);
  },
};

const MFA: Record<string, Step> = {
  enroll: async (state) => {
    await state.supabase.auth.signInWithPassword({ email: state.email, password });
    const outcome = await state.supabase.auth.mfa.enroll({ factorType: 'totp' });
    state.factorId = outcome.data?.id as string;
    state.secret = outcome.data?.totp.secret as string;
    return outcome;
  },
  challenge: async (state) => {
    const outcome = await state.supabase.auth.mfa.challenge({ factorId: state.factorId });
    state.challengeId = outcome.data?.id as string;
    return outcome;
  },
  verify: (state) => {
    const { factorId, challengeId } = state;
    return state.supabase.auth.mfa.verify({ factorId, challengeId, code: code(state) });
  },
  challengeAndVerify: (state) =>
    state.supabase.auth.mfa.challengeAndVerify({ factorId: state.factorId, code: code(state, 1) }),
  listFactors: ({ supabase }) => supabase.auth.mfa.listFactors(),
  getAuthenticatorAssuranceLevel: ({ supabase }) => supabase.auth.mfa.getAuthenticatorAssuranceLevel(),
  unenroll: ({ supabase, factorId }) => supabase.auth.mfa.unenroll({ factorId }),
};

const ADMIN: Record<string, Step> = {
  createUser: async (state) => {
    const outcome = await app.admin().createUser({ email: app.newEmail(), password, email_confirm: true });
    state.userId = outcome.data.user?.id as string;
    return outcome;
  },
  listUsers: () => app.admin().listUsers(),
  getUserById: ({ userId }) => app.admin().getUserById(userId),
  updateUserById: ({ userId }) => app.admin().updateUserById(userId, { app_metadata: { team: 'x' } }),
  inviteUserByEmail: () => app.admin().inviteUserByEmail(app.newEmail()),
  generateLink: ({ email }) => app.admin().generateLink({ type: 'magiclink', email }),
  signOut: async ({ supabase }) => {
    const { session } = (await supabase.auth.getSession()).data;
    assert.ok(session);
    return app.admin().signOut(session.access_token);
  },
  deleteUser: ({ userId }) => app.admin().deleteUser(userId),
};

const ADMIN_MFA: Record<string, Step> = {
  listFactors: async (state) => {
    await MFA.enroll?.(state);
    state.userId = (await state.supabase.auth.getUser()).data.user?.id as string;
    return app.admin().mfa.listFactors({ userId: state.userId });
  },
  deleteFactor: ({ userId, factorId: id }) => app.admin().mfa.deleteFactor({ userId, id }),
};

/** Methods whose routes are absent here, with their error codes. */
const ABSENT: Record<string, [Step, string]> = {
  signInWithSSO: [({ supabase }) => supabase.auth.signInWithSSO({ domain: 'example.com' }), 'saml_provider_disabled'],
  signInWithWeb3: [
    ({ supabase }) =>
      supabase.auth.signInWithWeb3({ chain: 'solana', message: 'x', signature: new Uint8Array(64) } as never),
    'web3_provider_disabled',
  ],
};
/** Methods inside of linkIdentity, which calls them to open a provider's page. */
const INSIDE = ['linkIdentityOAuth'];
/** Methods, of the two lists above and of passkeys, that need a wallet or an authenticator first. */
const NEED_A_DEVICE = ['signInWithEthereum', 'signInWithSolana', 'signInWithPasskey', 'registerPasskey'];

const methodsOf = (object: object): string[] =>
  [...new Set([...Object.getOwnPropertyNames(object), ...Object.getOwnPropertyNames(Object.getPrototypeOf(object))])]
    .filter((name) => typeof Reflect.get(object, name) === 'function' && !/^(_|constructor$|fetch$|lock)/.test(name))
    .filter((name) => !Object.hasOwn(Object.prototype, name))
    .sort();

test('every public method of auth-js is called in this test, sends no request, or is listed as absent', () => {
  const { auth } = app.client();
  const prototype = Object.getPrototypeOf(Object.getPrototypeOf(auth)) as object;
  const all = Object.getOwnPropertyNames(prototype).filter((name) => !/^(_|constructor$|jwks)/.test(name));
  const known = [...Object.keys(AUTH), ...LOCAL, ...INSIDE, ...Object.keys(ABSENT), ...NEED_A_DEVICE];
  assert.equal(all.sort(), known.sort());
  assert.equal(methodsOf(auth.mfa), Object.keys(MFA).sort());
  assert.equal(methodsOf(auth.admin), Object.keys(ADMIN).sort());
  assert.equal(methodsOf(auth.admin.mfa), Object.keys(ADMIN_MFA).sort());
});

test('the whole public API of auth-js works', async () => {
  const state: State = {
    supabase: app.client(),
    email: app.newEmail(),
    userId: '',
    factorId: '',
    challengeId: '',
    secret: '',
  };
  for (const steps of [AUTH, MFA, ADMIN_MFA, ADMIN]) {
    for (const [name, step] of Object.entries(steps)) {
      const { error } = await step(state);
      assert.is(error, null, `${name}: ${error?.code} ${error?.message}`);
    }
  }
});

test('an absent feature is rejected with an error that names it', async () => {
  const state = { supabase: app.client() } as State;
  for (const [name, [step, expected]] of Object.entries(ABSENT)) {
    assert.is((await step(state)).error?.code, expected, name);
  }
  const token = app.tenant.serviceRoleKey;
  for (const path of ['/passkeys', '/admin/oauth/clients', '/admin/custom-providers', '/oauth/authorizations/x']) {
    assert.is((await app.ask('GET', path, { token })).body.error_code, 'feature_disabled', path);
  }
});

test.run();
