import { SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const password = 'correct horse';

test('who registers is logged in, and may log in again in any case and with spaces around the address', async () => {
  const registered = await api.call('POST', '/auth/register', {
    json: { email: ' Ada@Example.com ', password, full_name: 'Ada' },
  });
  assert.is(registered.status, 201);
  assert.is(registered.body.user.email, 'ada@example.com');
  assert.ok(Date.parse(registered.body.expires_at) > Date.now());
  const login = await api.call('POST', '/auth/login', { json: { email: 'ADA@example.com', password } });
  assert.is(login.status, 200);
  const me = await api.call('GET', '/auth/me', { token: login.body.token });
  assert.equal(me.body, registered.body.user);
});

test('an address registers once, whatever its case', async () => {
  const { email } = await register(api);
  const again = await api.call('POST', '/auth/register', { json: { email: email.toUpperCase(), password } });
  assert.is(again.status, 409);
  assert.is(again.body.errors[0].field, 'email');
});

test('an unknown address and a wrong password are refused in the same words', async () => {
  const { email } = await register(api);
  const wrong = await api.call('POST', '/auth/login', { json: { email, password: 'not that one' } });
  const unknown = await api.call('POST', '/auth/login', { json: { email: 'nobody@example.com', password } });
  assert.is(wrong.status, 401);
  assert.equal(unknown.body, wrong.body);
  assert.ok(wrong.headers['www-authenticate']);
});

test('guessing at one account is slowed down with 429 and Retry-After, and others log in meanwhile', async () => {
  const victim = await register(api);
  const guess = () => api.call('POST', '/auth/login', { json: { email: victim.email, password: 'a guess of it' } });
  const statuses = [];
  for (let tries = 0; tries < 14; tries += 1) statuses.push(await guess());
  const limited = statuses.find(({ status }) => status === 429);
  assert.ok(Number(limited?.headers['retry-after']) >= 1);
  const other = await register(api);
  assert.is((await api.call('POST', '/auth/login', { json: { email: other.email, password } })).status, 200);
});

test('who guesses from many addresses of one IPv6 network is slowed down as one, and another network is not', async () => {
  const from = (address: string, email: string) =>
    api.call('POST', '/auth/login', {
      json: { email, password: 'a guess of it' },
      headers: { 'x-forwarded-for': address },
    });
  for (let guess = 0; guess < 200; guess += 1) await from(`2001:db8:0:${guess}::1`, 'guessed@example.com');
  assert.is((await from('2001:db8::ffff', 'another@example.com')).status, 429);
  assert.is((await from('2001:db8:1::1', 'another@example.com')).status, 401);
});

const forge = (claims: Record<string, unknown>, key = api.settings.jwtSecret, alg = 'HS256') =>
  new SignJWT({ sub: '1', iss: 'slipway', aud: 'slipway-management', exp: Date.now() / 1000 + 60, ...claims })
    .setProtectedHeader({ alg })
    .sign(new TextEncoder().encode(key));

for (const [what, token] of [
  ['signed by another key', () => forge({}, 'another key of at least thirty-two bytes')],
  ['meant for a project', () => forge({ aud: 'authenticated' })],
  ['of another issuer', () => forge({ iss: 'http://localhost:4000/p/x/auth/v1' })],
  ['that has ended', () => forge({ exp: 1 })],
  ['of another algorithm', () => forge({}, api.settings.jwtSecret.repeat(2), 'HS512')],
  ['of nobody', () => forge({ sub: '999999' })],
  ['without an algorithm', async () => `${btoa('{"alg":"none"}')}.${btoa('{"sub":"1"}')}.`],
  ['that is no token', async () => 'nonsense'],
] as const) {
  test(`a token ${what} is refused`, async () => {
    const answer = await api.call('GET', '/auth/me', { token: await token() });
    assert.is(answer.status, 401);
    assert.match(String(answer.headers['www-authenticate']), /invalid_token/);
  });
}

for (const [what, options, status, code] of [
  ['JSON that is none', { body: '{"email":' }, 400, 'malformed_json'],
  [
    'a form',
    { body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'unsupported_media_type',
  ],
  ['a body past 1 MiB', { json: { email: 'x'.repeat(1_100_000) } }, 413, 'body_too_large'],
  ['no body', {}, 400, 'validation_failed'],
  ['a poisoned prototype', { body: '{"__proto__":{"x":1}}' }, 400, 'malformed_json'],
] as const) {
  test(`${what} is a problem document`, async () => {
    const answer = await api.call('POST', '/auth/register', options);
    assert.is(answer.status, status);
    assert.is(answer.body.code, code);
    assert.match(String(answer.headers['content-type']), /^application\/problem\+json/);
  });
}

test('validation names every field, unknown ones too', async () => {
  const { body } = await api.call('POST', '/auth/register', { json: { email: 'no', password: 'short', admin: true } });
  assert.equal(body.errors.map(({ field }: { field: string }) => field).sort(), ['admin', 'email', 'password']);
});

test('an unknown route is a 404 and a wrong method a 405 that lists the right ones', async () => {
  assert.is((await api.call('GET', '/projects/1/nothing')).body.code, 'not_found');
  const wrong = await api.call('PUT', '/projects');
  assert.is(wrong.status, 405);
  assert.is(wrong.headers.allow, 'GET, POST');
});

test('a malformed address and a request id are answered in kind', async () => {
  const answer = await api.call('GET', '/%zz', { headers: { 'x-request-id': 'mine-1' } });
  assert.is(answer.status, 400);
  assert.match(String(answer.headers['content-type']), /problem\+json/);
  assert.is(
    (await api.call('GET', '/plans', { headers: { 'x-request-id': 'mine-1' } })).headers['x-request-id'],
    'mine-1',
  );
});

test('health is 200 only while an operator holds a fresh lease', async () => {
  await api.operator.lead(new Date(Date.now() - 3_600_000));
  const stale = await api.call('GET', '/health');
  assert.is(stale.status, 503);
  assert.equal(
    stale.body.errors.map(({ field }: { field: string }) => field),
    ['operator'],
  );
  await api.operator.lead();
  await api.restart();
  assert.equal((await api.call('GET', '/health')).body, { ok: true });
});

test('the backend types say which are available here and why not', async () => {
  const { body } = await api.call('GET', '/backend-types');
  const shown = body.map(({ id, available, reason }: Record<string, unknown>) => [id, available, reason === null]);
  assert.equal(shown, [
    ['shared', true, true],
    ['dedicated', false, false],
    ['frontend', false, false],
    ['app', false, false],
  ]);
});

test.run();
