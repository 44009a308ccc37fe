import { SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const password = 'correct horse';

test('a registered account logs in with its address in any letter case, with spaces around it', async () => {
  const registered = await api.call('POST', '/auth/register', {
    json: { email: ' Ada@Example.com ', password, full_name: 'Ada' },
  });
  assert.is(registered.status, 201);
  assert.is(registered.body.user.email, 'ada@example.com');
  assert.ok(Date.parse(registered.body.expires_at) > Date.now());
  const login = await api.call('POST', '/auth/login', { json: { email: 'ADA@example.com', password } });
  assert.is(login.status, 200);
  const me = await api.call('GET', '/auth/me', { token: login.body.token });
  assert.equal(me.body, { ...registered.body.user, lost_projects: [] });
});

test('an address registers once, whatever its case', async () => {
  const { email } = await register(api);
  const again = await api.call('POST', '/auth/register', { json: { email: email.toUpperCase(), password } });
  assert.is(again.status, 409);
  assert.is(again.body.errors[0].field, 'email');
});

test('an unknown address and a wrong password get the same error', async () => {
  const { email } = await register(api);
  const wrong = await api.call('POST', '/auth/login', { json: { email, password: 'not that one' } });
  const unknown = await api.call('POST', '/auth/login', { json: { email: 'nobody@example.com', password } });
  assert.is(wrong.status, 401);
  assert.equal(unknown.body, wrong.body);
  assert.ok(wrong.headers['www-authenticate']);
});

test('password guesses for one account get 429 and Retry-After while other accounts log in', async () => {
  const victim = await register(api);
  const guess = () => api.call('POST', '/auth/login', { json: { email: victim.email, password: 'a guess of it' } });
  const statuses = [];
  for (let tries = 0; tries < 14; tries += 1) statuses.push(await guess());
  const limited = statuses.find(({ status }) => status === 429);
  assert.ok(Number(limited?.headers['retry-after']) >= 1);
  const other = await register(api);
  assert.is((await api.call('POST', '/auth/login', { json: { email: other.email, password } })).status, 200);
});

test('one IPv6 network’s addresses share a limit on password guesses, and another network has its own', async () => {
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
  ['that has expired', () => forge({ exp: 1 })],
  ['of another algorithm', () => forge({}, api.settings.jwtSecret.repeat(2), 'HS512')],
  ['of an unknown user', () => forge({ sub: '999999' })],
  ['without an algorithm', async () => `${btoa('{"alg":"none"}')}.${btoa('{"sub":"1"}')}.`],
  ['that is no token', async () => 'nonsense'],
] as const) {
  test(`a token ${what} is rejected`, async () => {
    const answer = await api.call('GET', '/auth/me', { token: await token() });
    assert.is(answer.status, 401);
    assert.match(String(answer.headers['www-authenticate']), /invalid_token/);
  });
}

for (const [what, options, status, code] of [
  ['invalid JSON', { body: '{"email":' }, 400, 'malformed_json'],
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
  test(`a request with ${what} gets a problem document`, async () => {
    const answer = await api.call('POST', '/auth/register', options);
    assert.is(answer.status, status);
    assert.is(answer.body.code, code);
    assert.match(String(answer.headers['content-type']), /^application\/problem\+json/);
    if (status === 415) assert.match(answer.body.detail, /content-type: application\/json/);
  });
}

test('a validation error names every invalid or unknown field', async () => {
  const { body } = await api.call('POST', '/auth/register', { json: { email: 'no', password: 'short', admin: true } });
  assert.equal(body.errors.map(({ field }: { field: string }) => field).sort(), ['admin', 'email', 'password']);
});

for (const path of ['/rest/v1/todos?select=id', '/auth/v1/token', '/storage/v1']) {
  test(`a request for ${path} without a project returns 404 with an error that names project_url`, async () => {
    const { status, body } = await api.call('GET', path);
    const [service] = /^\/\w+\/v1/.exec(path) ?? [];
    assert.equal([status, body.code], [404, 'not_found']);
    assert.ok(body.detail.includes(`<project_url>${service}, on one machine /p/<ref>${service}.`), body.detail);
  });
}

test('an unknown route returns 404, and a wrong method returns 405 with the allowed methods', async () => {
  const unknown = await api.call('GET', '/projects/1/nothing');
  assert.equal([unknown.status, unknown.body.code], [404, 'not_found']);
  assert.match(unknown.body.detail, /^There is no such route/);
  const wrong = await api.call('PUT', '/projects');
  assert.is(wrong.status, 405);
  assert.is(wrong.headers.allow, 'GET, POST');
});

test('a malformed URL returns 400, and a response repeats the id of its request', async () => {
  const answer = await api.call('GET', '/%zz', { headers: { 'x-request-id': 'mine-1' } });
  assert.is(answer.status, 400);
  assert.match(String(answer.headers['content-type']), /problem\+json/);
  assert.is(
    (await api.call('GET', '/plans', { headers: { 'x-request-id': 'mine-1' } })).headers['x-request-id'],
    'mine-1',
  );
});

test('GET /health returns 200 only while an operator has a fresh lease', async () => {
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

test('the root path returns a page to a browser, and JSON to a program', async () => {
  const json = await api.call('GET', '/');
  assert.is(json.status, 200);
  assert.match(json.body.docs, /\/docs$/);
  const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
  const page = await api.call('GET', '/', { headers });
  assert.is(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.is(page.headers.vary, 'Accept');
  const policy = String(page.headers['content-security-policy']);
  assert.match(policy, /default-src 'none'; style-src 'unsafe-inline';/);
  assert.not.match(policy, /script-src/);
  assert.match(page.body, /^<!doctype html>[\s\S]*A first project/);
});

test('the list of backend types says which types are available, and why the others are not', async () => {
  const { body } = await api.call('GET', '/backend-types');
  const shown = body.map(({ id, available, reason }: Record<string, unknown>) => [id, available, reason === null]);
  assert.equal(shown, [
    ['shared', true, true],
    ['dedicated', false, false],
    ['frontend', true, true],
    ['app', false, false],
  ]);
});

test.run();
