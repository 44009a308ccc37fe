import { createHash } from 'node:crypto';
import { until } from '@slipway/testing';
import { decodeJwt } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signToken } from '../../testing/project.js';
import { type AuthProject, type Harness, landing, password, sessionOf, startHarness } from './testing/harness.js';

let harness: Harness;
let app: AuthProject;
let neighbour: AuthProject;
const SITE = 'https://app.example.com';

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('attacked', settings());
  neighbour = await harness.project('neighbour');
});
test.after(() => harness?.close());

const settings = () => ({
  ...harness.mailbox.settings,
  GOTRUE_SITE_URL: SITE,
  GOTRUE_URI_ALLOW_LIST:
    'https://*.preview.example.com/**,https://docs.example.com/*,myapp://callback,MyOther://**,' +
    'https://*.Shop.example.com:443/*,https://*.münchen.example/büro/*',
});

async function confirmed(email = app.newEmail()) {
  const supabase = app.client();
  await supabase.auth.signUp({ email, password });
  const { code } = await harness.mailbox.next(email);
  const { error, data } = await supabase.auth.verifyOtp({ email, token: code, type: 'signup' });
  assert.is(error, null);
  return { supabase, email, userId: data.user?.id as string };
}

/** Returns a response without its ids, times and addresses. */
const shape = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(shape)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort()
            .map(([key, each]) => [key, shape(each)]),
        )
      : typeof value;

for (const [path, body] of [
  ['/signup', { password }],
  ['/recover', {}],
  ['/otp', {}],
  ['/magiclink', {}],
  ['/resend', { type: 'signup' }],
  ['/resend', { type: 'email_change' }],
] as const) {
  test(`${path} ${JSON.stringify(body)} gets the same response for a known and an unknown address`, async () => {
    const { email } = await confirmed();
    const known = await app.ask('POST', path, { body: { ...body, email } });
    const unknown = await app.ask('POST', path, { body: { ...body, email: app.newEmail() } });
    assert.is(known.status, 200);
    assert.is(unknown.status, 200);
    assert.equal(shape(known.body), shape(unknown.body));
  });
}

test('a sign-up with the address of a confirmed user changes no row of the user', async () => {
  const { email, userId } = await confirmed();
  const before = harness.mailbox.countOf(email);
  const { data } = await app.client().auth.signUp({ email, password: 'attackers horse' });
  assert.is.not(data.user?.id, userId);
  await app.client().auth.resetPasswordForEmail(email);
  await harness.mailbox.next(email);
  assert.is(harness.mailbox.countOf(email), before + 1);
  assert.is((await app.client().auth.signInWithPassword({ email, password })).error, null);
});

test('a link to /verify without type or token is rejected without a redirect', async () => {
  for (const [query, msg] of [
    ['', 'Verify requires a verification type'],
    ['?type=signup', 'Verify requires a token or a token hash'],
  ]) {
    const answer = await app.ask('GET', `/verify${query}`);
    assert.equal([answer.status, answer.body.error_code, answer.body.msg], [400, 'validation_failed', msg]);
  }
});

test('a provider that is disabled or unknown is rejected with upstream’s errors', async () => {
  for (const [name, why] of [
    ['gitlab', 'provider is not enabled'],
    ['nonsense', 'Provider nonsense could not be found'],
  ]) {
    const answer = await app.ask('GET', `/authorize?provider=${name}`);
    assert.equal([answer.status, answer.body.msg], [400, `Unsupported provider: ${why}`]);
  }
});

test('codes of a user are all rejected after a few wrong guesses, even the right one', async () => {
  const { email } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const { code } = await harness.mailbox.next(email);
  const codes: (string | undefined)[] = [];
  for (let i = 0; i < 25; i++) {
    const guess = String(i).padStart(6, '0');
    const { error } = await app
      .client()
      .auth.verifyOtp({ email, token: guess === code ? '999999' : guess, type: 'email' });
    codes.push(error?.code);
  }
  assert.is(codes[0], 'otp_expired');
  assert.is(codes.at(-1), 'over_request_rate_limit');
  const right = await app.client().auth.verifyOtp({ email, token: code, type: 'email' });
  assert.is(right.error?.status, 429);
});

test('a guessed code can’t be sent as a hash of address and code', async () => {
  const { email } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const { code } = await harness.mailbox.next(email);
  const hash = createHash('sha224')
    .update(email + code)
    .digest('hex');
  for (const token_hash of [hash, `pkce_${hash}`]) {
    const { status } = await app.ask('POST', '/verify', { body: { token_hash, type: 'magiclink' } });
    assert.is(status, 403);
  }
  const { error } = await app.client().auth.verifyOtp({ email, token: code, type: 'email' });
  assert.is(error, null);
});

test('guesses at a code count for the user, wherever the hashed text is split into address and code', async () => {
  const { email } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const { code } = await harness.mailbox.next(email);
  const cut = { type: 'email', email: email + code.slice(0, 4), token: code.slice(4) };
  assert.is((await app.ask('POST', '/verify', { body: cut })).status, 403);
  const { error } = await app.client().auth.verifyOtp({ email, token: code, type: 'email' });
  assert.is(error, null);
});

test('a code of one user, kind or project is rejected for another', async () => {
  const [one, other] = [await confirmed(), await confirmed()];
  await app.client().auth.signInWithOtp({ email: one.email });
  const { code, link } = await harness.mailbox.next(one.email);
  const hash = new URL(link).searchParams.get('token') as string;
  const attempts = [
    app.ask('POST', '/verify', { body: { email: other.email, token: code, type: 'email' } }),
    app.ask('POST', '/verify', { body: { token_hash: hash, type: 'signup' } }),
    app.ask('POST', '/verify', { body: { token_hash: hash, type: 'email_change' } }),
    app.ask('POST', '/verify', { body: { token_hash: hash, type: 'sms' } }),
    neighbour.ask('POST', '/verify', { body: { token_hash: hash, type: 'magiclink' } }),
    app.ask('POST', '/verify', { body: { email: one.email, token: '', type: 'email' } }),
    app.ask('POST', '/verify', { body: { token_hash: '', type: 'email' } }),
  ];
  for (const { status } of await Promise.all(attempts)) assert.ok(status === 403 || status === 400);
});

for (const target of [
  'https://evil.example',
  'https://app.example.com.evil.example',
  'https://app.example.com@evil.example',
  'https://evil.example/https://app.example.com',
  '//evil.example',
  'https:\\\\evil.example',
  'https://evil.example\\.preview.example.com/',
  'https://evil.example/.preview.example.com/x',
  'https://evil.example#.preview.example.com/x',
  'https://evil.example?x=.preview.example.com/x',
  'https://evil\u3002example?x=.preview.example.com/x',
  'https://evil\uff0eexample?.preview.example.com/x',
  'https://evil\uff61example/?.preview.example.com/x',
  'https://3232235777?.preview.example.com/x',
  'https://docs.example.com/a/b',
  'https://docs.example.com.evil.example/a',
  'http://app.example.com',
  'javascript:alert(1)//https://app.example.com',
  'data:text/html,x',
  'myapp://callback.evil.example',
  ' https://evil.example',
  'https://a.b.preview.example.com/x',
  'https://a.münchen.example/buro/x',
]) {
  test(`a redirect never goes to ${target}`, async () => {
    const answer = await app.ask('GET', `/verify?token=x&type=signup&redirect_to=${encodeURIComponent(target)}`);
    const { url } = landing(answer.headers.get('location'));
    assert.is(url.origin, SITE);
    assert.is(url.pathname, '/');
  });
}

test('a redirect never goes to another project on the shared origin of the site', async () => {
  const { tenant } = app;
  const { origin } = new URL(tenant.url);
  const landingOf = async (target: string) => {
    const answer = await app.ask('GET', `/verify?token=x&type=signup&redirect_to=${encodeURIComponent(target)}`);
    return answer.headers.get('location')?.replace(/[?#].*$/, '');
  };
  const site = `${tenant.url}/functions/v1/app`;
  app.configure({ ...settings(), GOTRUE_SITE_URL: site });
  try {
    for (const path of [`/p/${neighbour.tenant.ref}/functions/v1/app`, '/docs', `/p/${tenant.ref}-2/x`, '/']) {
      assert.is(await landingOf(origin + path), site, path);
      assert.is(await landingOf(`${tenant.url}/..${path.replace(/^\/p/, '')}`), site, path);
    }
    assert.is(await landingOf(`${tenant.url}/functions/v1/other`), `${tenant.url}/functions/v1/other`);
    app.configure({ ...settings(), GOTRUE_SITE_URL: origin });
    assert.is(await landingOf(`${origin}/p/${neighbour.tenant.ref}/functions/v1/app`), `${origin}/`);
  } finally {
    app.configure(settings());
  }
});

for (const target of [
  `${SITE}/deep/path?x=1`,
  'https://a.preview.example.com/b/c',
  'https://docs.example.com/a',
  'myapp://callback',
  'MyOther://login/x',
  'https://A.shop.example.com:443/x',
  'https://a.münchen.example/büro/x',
]) {
  test(`a redirect may go to ${target}, which is allowed`, async () => {
    const answer = await app.ask('GET', `/verify?token=x&type=signup&redirect_to=${encodeURIComponent(target)}`);
    assert.ok(answer.headers.get('location')?.startsWith(new URL(target).href));
  });
}

const WISHES = {
  role: 'service_role',
  is_super_admin: true,
  app_metadata: { role: 'service_role' },
  raw_app_meta_data: { role: 'service_role' },
  aud: 'admin',
  id: '5f6e0c43-0000-4000-8000-000000000000',
  email_confirmed_at: '2020-01-01',
  email_confirm: true,
  phone_confirm: true,
  is_sso_user: true,
  banned_until: null,
  encrypted_password: 'x',
  confirmed_at: '2020-01-01',
};

test('fields that only administrators may set are ignored from a user, at a sign-up or later', async () => {
  const email = app.newEmail();
  const made = await app.ask('POST', '/signup', { body: { email, password, ...WISHES, data: WISHES } });
  assert.is(made.status, 200);
  const { code } = await harness.mailbox.next(email);
  const supabase = app.client();
  await supabase.auth.verifyOtp({ email, token: code, type: 'signup' });
  const { access_token: token } = await sessionOf(supabase);
  const { app_metadata: _, ...rest } = WISHES;
  await app.ask('PUT', '/user', { token, body: rest });
  assert.is((await app.ask('PUT', '/user', { token, body: WISHES })).body.error_code, 'not_admin');
  const { rows } = await app.owner.query('select * from auth.users where email = $1', [email]);
  assert.equal(
    [rows[0].role, rows[0].aud, rows[0].is_super_admin, rows[0].is_sso_user, rows[0].raw_app_meta_data],
    ['authenticated', 'authenticated', null, false, { provider: 'email', providers: ['email'] }],
  );
  assert.is.not(rows[0].id, WISHES.id);
  const { data } = await supabase.auth.refreshSession();
  assert.is(decodeJwt(data.session?.access_token as string).role, 'authenticated');
});

test('every admin route rejects the anon key, users, and forged service_role claims', async () => {
  const { supabase, userId } = await confirmed();
  const { access_token: user } = await sessionOf(supabase);
  const now = Math.floor(Date.now() / 1000);
  const expired = await signToken({ role: 'service_role', iat: now - 7200, exp: now - 3600 }, app.tenant.jwtSecret);
  const future = await signToken({ role: 'service_role', nbf: now + 3600 }, app.tenant.jwtSecret);
  const forged = await signToken({ role: 'service_role' }, 'another secret of at least 32 bytes');
  for (const [method, path] of [
    ['GET', '/admin/users'],
    ['POST', '/admin/users'],
    ['GET', `/admin/users/${userId}`],
    ['PUT', `/admin/users/${userId}`],
    ['DELETE', `/admin/users/${userId}`],
    ['GET', `/admin/users/${userId}/factors`],
    ['DELETE', `/admin/users/${userId}/factors/${userId}`],
    ['POST', '/admin/generate_link'],
    ['POST', '/invite'],
  ] as const) {
    for (const token of [app.tenant.anonKey, user, expired, future, forged, neighbour.tenant.serviceRoleKey]) {
      const { status } = await app.ask(method, path, { token });
      assert.is(status, 403, `${method} ${path}`);
    }
    assert.is((await app.ask(method, path)).status, 401, `${method} ${path}`);
  }
});

test('a sign-in always creates a new session, whose id and tokens the client cannot choose', async () => {
  const { supabase, email } = await confirmed();
  const before = await sessionOf(supabase);
  const answer = await app.ask('POST', '/token?grant_type=password', {
    token: before.access_token,
    body: { email, password, session_id: 'mine', refresh_token: 'mine' },
  });
  const session = (token: unknown) => decodeJwt(String(token)).session_id;
  assert.is.not(session(answer.body.access_token), session(before.access_token));
  assert.is.not(answer.body.refresh_token, 'mine');
});

test("a project's tokens and refresh tokens are rejected by another project", async () => {
  const { supabase } = await confirmed();
  const { access_token: token, refresh_token } = await sessionOf(supabase);
  assert.is((await neighbour.ask('GET', '/user', { token })).status, 403);
  const refreshed = await neighbour.ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token } });
  assert.is(refreshed.body.error_code, 'refresh_token_not_found');
});

test('a stolen refresh token that is replayed ends the session of both the thief and the user', async () => {
  app.configure({ ...settings(), GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: '0' });
  const { supabase } = await confirmed();
  const { refresh_token: stolen } = await sessionOf(supabase);
  const refresh = (refresh_token: string) =>
    app.ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token } });
  const second = (await refresh(stolen)).body.refresh_token as string;
  const third = (await refresh(second)).body.refresh_token as string;
  assert.is((await refresh(stolen)).body.error_code, 'refresh_token_already_used');
  assert.is((await refresh(third)).body.error_code, 'refresh_token_already_used');
});

/** Waits until one connection waits for a lock of another. */
const waitsForLock = () =>
  until(async () => (await app.owner.query('select from pg_locks where not granted')).rowCount, 'somebody to wait');

test('a sign-in with the old password during its change leaves no session', async () => {
  const { email, userId } = await confirmed();
  await app.owner.query('begin');
  await app.owner.query("update auth.users set encrypted_password = 'another' where id = $1", [userId]);
  const signingIn = app.ask('POST', '/token?grant_type=password', { body: { email, password } });
  await waitsForLock();
  await app.owner.query('delete from auth.sessions where user_id = $1', [userId]);
  await app.owner.query('commit');
  assert.is((await signingIn).body.error_code, 'invalid_credentials');
  assert.is((await app.owner.query('select from auth.sessions where user_id = $1', [userId])).rowCount, 0);
});

test('a global sign-out waits for sessions that are being created, and ends them too', async () => {
  const { supabase, userId } = await confirmed();
  const { access_token: token } = await sessionOf(supabase);
  await app.owner.query('begin');
  await app.owner.query('select from auth.users where id = $1 for no key update', [userId]);
  await app.owner.query('insert into auth.sessions (id, user_id) values (gen_random_uuid(), $1)', [userId]);
  const signingOut = app.ask('POST', '/logout', { token });
  await waitsForLock();
  await app.owner.query('commit');
  assert.is((await signingOut).status, 204);
  assert.is((await app.owner.query('select from auth.sessions where user_id = $1', [userId])).rowCount, 0);
});

test('sessions end by lifetime, inactivity, or a sign-in elsewhere, as configured', async () => {
  const refresh = async (refresh_token: string) =>
    (await app.ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token } })).body.error_code;
  const age = (userId: string, what: string) =>
    app.owner.query(`update auth.sessions set ${what} where user_id = $1`, [userId]);
  const inNewSession = async (values: Record<string, string>) => {
    app.configure({ ...settings(), ...values });
    const user = await confirmed();
    return { ...user, token: (await sessionOf(user.supabase)).refresh_token };
  };
  const timed = await inNewSession({ GOTRUE_SESSIONS_TIMEBOX: '1h' });
  await age(timed.userId, "created_at = created_at - interval '61 minutes'");
  assert.is(await refresh(timed.token), 'session_expired');
  const idle = await inNewSession({ GOTRUE_SESSIONS_INACTIVITY_TIMEOUT: '30m' });
  await age(idle.userId, "created_at = created_at - interval '31 minutes'");
  assert.is(await refresh(idle.token), 'session_expired');
  const single = await inNewSession({ GOTRUE_SESSIONS_SINGLE_PER_USER: 'true' });
  const elsewhere = app.client();
  await elsewhere.auth.signInWithPassword({ email: single.email, password });
  assert.is(await refresh(single.token), 'session_expired');
  assert.is(await refresh((await sessionOf(elsewhere)).refresh_token), undefined);
  app.configure(settings());
});

test('a password must satisfy the project’s rules', async () => {
  app.configure({
    ...settings(),
    GOTRUE_PASSWORD_MIN_LENGTH: '10',
    GOTRUE_PASSWORD_REQUIRED_CHARACTERS: 'abcdefghijklmnopqrstuvwxyz:0123456789:!\\:',
  });
  const weak = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password: 'short' } });
  assert.is(weak.status, 422);
  assert.is(weak.body.error_code, 'weak_password');
  assert.equal((weak.body.weak_password as { reasons: string[] }).reasons, ['length', 'characters']);
  const { error } = await app.client().auth.signUp({ email: app.newEmail(), password: 'longenough1:' });
  assert.is(error, null);
  app.configure(settings());
});

test('a banned user can neither sign in nor refresh a session', async () => {
  const { supabase, email, userId } = await confirmed();
  await app.client().auth.signInWithOtp({ email });
  const { code } = await harness.mailbox.next(email);
  const { refresh_token, access_token: token } = await sessionOf(supabase);
  await app.admin().updateUserById(userId, { ban_duration: '24h' });
  const answers = await Promise.all([
    app.ask('POST', '/token?grant_type=password', { body: { email, password } }),
    app.ask('POST', '/verify', { body: { email, token: code, type: 'email' } }),
    app.ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token } }),
    app.ask('GET', '/user', { token }),
  ]);
  for (const { body } of answers) assert.is(body.error_code, 'user_banned');
});

test('disabled sign-in methods are rejected with their own errors', async () => {
  app.configure({ ...settings(), GOTRUE_DISABLE_SIGNUP: 'true' });
  const signup = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(signup.body.error_code, 'signup_disabled');
  app.configure({ ...settings(), GOTRUE_EXTERNAL_EMAIL_ENABLED: 'false' });
  const email = await app.ask('POST', '/signup', { body: { email: app.newEmail(), password } });
  assert.is(email.body.error_code, 'email_provider_disabled');
  app.configure(settings());
  assert.is((await app.ask('POST', '/signup', { body: {} })).body.error_code, 'anonymous_provider_disabled');
});

test('a client address beyond its rate limit gets a 429 with the time to wait', async () => {
  app.configure({
    ...settings(),
    GOTRUE_RATE_LIMIT_VERIFY: '2',
    GOTRUE_RATE_LIMIT_OTP: '1',
    GOTRUE_RATE_LIMIT_EMAIL_SENT: '1',
  });
  const verify = () => app.ask('POST', '/verify', { body: { token_hash: 'x', type: 'email' } });
  await verify();
  let last = await verify();
  for (let i = 0; i < 40 && last.status !== 429; i++) last = await verify();
  assert.is(last.body.error_code, 'over_request_rate_limit');
  assert.ok(Number(last.headers.get('retry-after')) > 0);
  assert.is(last.headers.get('x-sb-error-code'), 'over_request_rate_limit');
  const target = encodeURIComponent('https://docs.example.com/a');
  const followed = await app.ask('GET', `/verify?token=x&type=signup&redirect_to=${target}`);
  const { url, fragment } = landing(followed.headers.get('location'));
  assert.equal([url.origin, fragment.get('error_code')], [SITE, 'over_request_rate_limit']);
  app.configure(settings());
});

test('a limit by client address uses the address that the proxy appended, never one that the caller sent', async () => {
  app.configure({ ...settings(), GOTRUE_RATE_LIMIT_VERIFY: '1', GOTRUE_RATE_LIMIT_HEADER: 'X-Forwarded-For' });
  const verify = async (address: string) => {
    const headers = { 'x-forwarded-for': address };
    return (await app.ask('POST', '/verify', { body: { token_hash: 'x', type: 'email' }, headers })).status;
  };
  assert.is(await verify('10.0.0.1, 198.51.100.1'), 403);
  assert.is(await verify('10.0.0.2, 198.51.100.1'), 429);
  assert.is(await verify('10.0.0.1, 198.51.100.2'), 403);
  app.configure(settings());
});

const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
for (const [what, data, msg] of [
  ['holds half of a surrogate pair', '{"a":["\\ud800"]}', 'data holds half of a surrogate pair'],
  ['has it in a name', '{"\\udc00x":1}', 'data holds half of a surrogate pair'],
  ['holds a NUL', '{"a":"\\u0000"}', 'data holds \\u0000'],
  ['is nested deep', nested(101), 'data is nested more than 100 levels deep'],
  ['is nested as deep as can be', nested(8_000), 'data is nested more than 100 levels deep'],
  ['holds very many values', `{"a":[${'{},'.repeat(2_000)}1]}`, 'The request body holds more than 2000 values'],
] as const) {
  test(`metadata that ${what} is rejected on every route`, async () => {
    const { supabase, userId } = await confirmed();
    const { access_token: user } = await sessionOf(supabase);
    const admin = app.tenant.serviceRoleKey;
    for (const [method, path, token, member] of [
      ['POST', '/signup', undefined, 'data'],
      ['POST', '/otp', undefined, 'data'],
      ['PUT', '/user', user, 'data'],
      ['POST', '/invite', admin, 'data'],
      ['POST', '/admin/users', admin, 'user_metadata'],
      ['PUT', `/admin/users/${userId}`, admin, 'app_metadata'],
    ] as const) {
      const body = `{"email":${JSON.stringify(app.newEmail())},"password":"${password}","${member}":${data}}`;
      const answer = await app.ask(method, path, { token, body });
      assert.is(answer.status, 400, `${method} ${path}`);
      assert.ok(String(answer.body.msg).startsWith(msg.replace('data', member)), String(answer.body.msg));
    }
  });
}

test('metadata of any storable text and allowed depth is stored unchanged', async () => {
  const { supabase } = await confirmed();
  const data = { text: '\\u0000 \\ud800 😀', deep: JSON.parse(nested(98)) };
  const { error } = await supabase.auth.updateUser({ data });
  assert.is(error, null);
  const stored = (await supabase.auth.getUser()).data.user?.user_metadata;
  assert.equal([stored?.text, stored?.deep], [data.text, data.deep]);
});

test('a query with text that can’t be stored is rejected by the parameter’s name', async () => {
  const answer = await app.ask('GET', '/verify?token=%00&type=signup');
  assert.equal([answer.status, answer.body.msg], [400, 'token holds \\u0000, which cannot be stored']);
});

test('a body beyond auth’s limit gets 413', async () => {
  const body = { email: app.newEmail(), password, data: { a: 'x'.repeat(65_536) } };
  assert.is((await app.ask('POST', '/signup', { body })).status, 413);
});

test('rows that expired a day ago are deleted in batches while the project is used, and others stay', async () => {
  const cleaned = await harness.project('cleaned');
  const { email } = await cleaned.signedUp();
  await cleaned.owner.query(`insert into auth.refresh_tokens (token, revoked, updated_at) values
    ('recent', true, now()), ('used', false, now() - interval '25 hours')`);
  await cleaned.owner.query(`insert into auth.refresh_tokens (token, revoked, updated_at)
    select 'old' || n, true, now() - interval '25 hours' from generate_series(1, 1500) n`);
  const left = await until(async () => {
    await cleaned.client().auth.signInWithPassword({ email, password });
    const { rows } = await cleaned.owner.query(
      'select token from auth.refresh_tokens where user_id is null order by token',
    );
    return rows.length < 3 && rows;
  }, 'the tokens to be cleared');
  assert.equal(left, [{ token: 'recent' }, { token: 'used' }]);
});

for (const [setting, value, ended, alive] of [
  ['TIMEBOX', '1h', ['26 hours'], ['24 hours']],
  ['INACTIVITY_TIMEOUT', '1h', ['26 hours'], ['24 hours']],
  ['SINGLE_PER_USER', 'true', ['26 hours', '25 hours'], ['26 hours', '23 hours']],
] as const) {
  test(`a session that ended by ${setting} more than a day ago is deleted, and no other`, async () => {
    const cleaned = await harness.project(`ended${value}${ended.length}${setting.length}`, {
      [`GOTRUE_SESSIONS_${setting}`]: value,
    });
    const { email, userId } = await cleaned.signedUp();
    const other = await cleaned.signedUp();
    const sessionsOf = async (id: string) =>
      (await cleaned.owner.query('select id from auth.sessions where user_id = $1 order by created_at', [id])).rows;
    for (const [id, ages] of [
      [userId, ended],
      [other.userId, alive],
    ] as const) {
      await cleaned.owner.query('delete from auth.sessions where user_id = $1', [id]);
      for (const age of ages) {
        const made =
          'insert into auth.sessions (id, user_id, created_at) values (gen_random_uuid(), $1, now() - $2::interval)';
        await cleaned.owner.query(made, [id, age]);
      }
    }
    const [first] = await sessionsOf(userId);
    const remaining = await sessionsOf(other.userId);
    await cleaned.client().auth.signInWithPassword({ email, password });
    await until(async () => (await sessionsOf(userId)).every(({ id }) => id !== first.id), 'the session to go');
    assert.equal(await sessionsOf(other.userId), remaining);
  });
}

test('a password hashed by bcrypt or argon2 from elsewhere signs its user in', async () => {
  const bcrypt = '$2b$04$zKe.0Cmaafp6AFt/4s1FZuhbNzXJqGrXyJxuYcBaQW0jdgRnjWf1a';
  const refused = await app.admin().createUser({ email: app.newEmail(), password_hash: 'md5:x' });
  assert.is(refused.error?.code, 'validation_failed');
  const both = await app.admin().createUser({ email: app.newEmail(), password_hash: bcrypt, password });
  assert.is(both.error?.code, 'validation_failed');
  const id = crypto.randomUUID();
  const { data, error } = await app.admin().createUser({ id, email: app.newEmail(), password_hash: bcrypt });
  assert.is(error, null);
  assert.is(data.user?.id, id);
});

test('the log contains no text that these tests sent', () => {
  assert.not.match(harness.logged.join('\n'), /correct horse|attackers horse|mail-canary|"token"|refresh_token/);
});

test.run();
