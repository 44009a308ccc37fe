/**
 * Tests accounts of an installation that sends no mail: passwords, sessions, addresses, deletion, limits on wrong
 * passwords.
 */
import { until } from '@slipway/testing';
import { SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';
import { SESSIONS_PER_USER } from './sessions.repository.js';

const api = await startTestApi();
test.after(() => api.close());

const password = 'correct horse';
const logIn = async (email: string, secret = password, headers: Record<string, string> = {}) =>
  api.call('POST', '/auth/login', { json: { email, password: secret }, headers });
const statusOf = async (token: string) => (await api.call('GET', '/auth/me', { token })).status;
const post = (path: string, token: string, json: object) => api.call('POST', path, { token, json });
const from = (address: string) => ({ 'x-forwarded-for': address });

const { onPlatform } = api;

test('a changed password ends all other sessions, and needs the current one', async () => {
  const { email, token } = await register(api);
  const other = (await logIn(email)).body.token;
  const pat = (await post('/tokens', token, {})).body.token;
  const wrong = await post('/auth/password', token, { current_password: 'not that one', password: 'another horse' });
  assert.is(wrong.status, 401);
  const changed = await post('/auth/password', token, { current_password: password, password: 'another horse' });
  assert.equal([changed.status, changed.body], [200, { ok: true }]);
  assert.equal([await statusOf(token), await statusOf(other), await statusOf(pat)], [200, 401, 200]);
  assert.equal([(await logIn(email)).status, (await logIn(email, 'another horse')).status], [401, 200]);
});

test('a user token of an earlier release, without a session, is valid until its password changes', async () => {
  const { email, token } = await register(api);
  const [{ id } = { id: 0 }] = await onPlatform('select id from platform.users where email = $1', [email]);
  const old = await new SignJWT({ sub: String(id), iss: 'slipway', aud: 'slipway-management' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(api.settings.jwtSecret));
  assert.is(await statusOf(old), 200);
  await post('/auth/password', token, { current_password: password, password: 'another horse' });
  assert.is(await statusOf(old), 401);
});

test('the list of sessions marks the current one, and an ended session is rejected at once', async () => {
  const { email, token } = await register(api);
  const stranger = await register(api);
  const other = (await logIn(email, password, { 'user-agent': 'a browser' })).body.token;
  const { body } = await api.call('GET', '/auth/sessions', { token });
  assert.equal(
    body.map(({ user_agent, current }: Record<string, unknown>) => [user_agent, current]),
    [
      ['a browser', false],
      ['', true],
    ],
  );
  const end = (who: string) => api.call('DELETE', `/auth/sessions/${body[0].id}`, { token: who });
  assert.is((await end(stranger.token)).status, 404);
  assert.equal([(await end(token)).status, (await end(token)).status], [200, 404]);
  assert.equal([await statusOf(other), await statusOf(token)], [401, 200]);
});

test('an account has a limited number of sessions, and a login beyond the limit ends the oldest session', async () => {
  const { email, token } = await register(api);
  await onPlatform(
    `insert into platform.sessions (user_id, network, user_agent, expires_at)
     select id, '', '', now() + interval '1 hour' from platform.users, generate_series(1, $2::int) where email = $1`,
    [email, SESSIONS_PER_USER],
  );
  const last = (await logIn(email)).body.token;
  assert.equal([await statusOf(token), await statusOf(last)], [401, 200]);
  assert.is((await api.call('GET', '/auth/sessions', { token: last })).body.length, SESSIONS_PER_USER);
});

test('expired sessions are rejected, and deleted when the API starts', async () => {
  const { email, token } = await register(api);
  await onPlatform(
    `update platform.sessions set expires_at = now() - interval '1 s'
     where user_id = (select id from platform.users where email = $1)`,
    [email],
  );
  assert.is(await statusOf(token), 401);
  await api.restart();
  await until(
    () => onPlatform('select from platform.sessions where expires_at < now()'),
    (rows) => rows.length === 0,
  );
});

for (const [method, path, json] of [
  ['POST', '/auth/password', { current_password: password, password }],
  ['POST', '/auth/email', { email: 'else@example.com', password }],
  ['POST', '/auth/verification', undefined],
  ['GET', '/auth/sessions', undefined],
  ['DELETE', '/auth/sessions/1', undefined],
  ['POST', '/auth/me/delete', { password }],
] as const) {
  test(`${method} ${path} rejects a personal access token`, async () => {
    const { token } = await register(api);
    const pat = (await post('/tokens', token, {})).body.token;
    const refused = await api.call(method, path, { token: pat, json });
    assert.equal([refused.status, refused.body.code], [403, 'not_allowed']);
    assert.is((await api.call(method, path, { json })).status, 401);
  });
}

test('wrong passwords from another network do not lock the owner out', async () => {
  const { email } = await register(api);
  const guesses = [];
  for (let guess = 0; guess < 14; guess += 1) guesses.push((await logIn(email, 'a guess', from('203.0.113.9'))).status);
  assert.is(guesses.at(-1), 429);
  assert.is((await logIn(email, password, from('198.51.100.7'))).status, 200);
});

test('a network that signed in before has its own limit on logins while many networks guess passwords', async () => {
  const { email } = await register(api);
  const home = from('2001:db8:aaaa::1');
  assert.is((await logIn(email, password, home)).status, 200);
  let guesses = 0;
  const guess = async () => (await logIn(email, 'a guess', from(`203.0.${guesses++}.9`))).status;
  await until(guess, (status) => status === 429);
  assert.ok(guesses > 50, 'wrong passwords from a few networks delay no other network');
  assert.is((await logIn(email, password, from('2001:db8:aaaa:5::2'))).status, 200);
});

test('the holder of an account logs in from a new network while other networks guess its password', async () => {
  const { email } = await register(api);
  const guess = async (network: number) => (await logIn(email, 'a guess', from(`198.18.${network}.9`))).status;
  for (let guesses = 0; guesses < 100; guesses++) assert.is(await guess(guesses % 10), 401);
  // The reserve is for networks without a failed attempt.
  assert.is(await guess(10), 401);
  await until(
    () => guess(10),
    (status) => status === 429,
  );
  for (const network of ['192.0.2.1', '192.0.2.2'])
    assert.is((await logIn(email, password, from(network))).status, 200);
});

test('an account that changes its address keeps its projects, and spec.owner gets the new address', async () => {
  const { token, email } = await register(api);
  const { id, ref } = (await post('/projects', token, { name: 'follows' })).body;
  const address = `moved-${email}`;
  assert.is((await post('/auth/email', token, { email: address, password: 'wrong' })).status, 401);
  const changed = await post('/auth/email', token, { email: address.toUpperCase(), password });
  assert.equal([changed.status, changed.body], [200, { changed: true }]);
  assert.is((await api.call('GET', `/projects/${id}`, { token })).status, 200);
  await until(
    () => api.operator.get(ref),
    ({ spec }) => spec.owner === address,
  );
  assert.is((await api.call('GET', `/projects/${id}`, { token })).status, 200);
  assert.equal([(await logIn(email)).status, (await logIn(address)).status], [401, 200]);
  const [row] = await onPlatform('select rotation_step from platform.projects where ref = $1', [ref]);
  assert.equal(row, { rotation_step: 0 });
});

test('an account does not own a project applied for its address if another account gave the address up', async () => {
  const { token, email } = await register(api);
  const ref = `freed-${Date.now() % 100_000}`;
  await post('/auth/email', token, { email: `moved-${email}`, password });
  const eve = (await api.call('POST', '/auth/register', { json: { email, password } })).body.token;
  await api.operator.apply(ref, { owner: email });
  await until(
    () => onPlatform('select from platform.projects where ref = $1', [ref]),
    (rows) => rows.length === 1,
  );
  await api.restart();
  assert.equal((await api.call('GET', '/projects', { token: eve })).body, []);
});

test('a manifest with a former address of the owner in spec.owner does not change the owner', async () => {
  const { token, email } = await register(api);
  const { id, ref } = (await post('/projects', token, { name: 'git-ops' })).body;
  await post('/auth/email', token, { email: `moved-${email}`, password });
  await until(
    () => api.operator.get(ref),
    ({ spec }) => spec.owner === `moved-${email}`,
  );
  await api.call('POST', '/auth/register', { json: { email, password } });
  const { metadata } = await api.operator.patch(ref, { spec: { owner: email } });
  await until(
    () => onPlatform('select seen_generation from platform.projects where ref = $1', [ref]),
    ([row]) => row?.seen_generation === (metadata as { generation: number }).generation,
  );
  assert.is((await api.call('GET', `/projects/${id}`, { token })).status, 200);
  assert.is((await api.operator.get(ref)).spec.owner, email, 'the manifest is unchanged');
});

test('an account cannot change its address to the address of another account', async () => {
  const { token } = await register(api);
  const other = await register(api);
  const refused = await post('/auth/email', token, { email: other.email, password });
  assert.equal([refused.status, refused.body.code], [409, 'email_taken']);
});

test('an account that owns projects or retained data cannot be deleted', async () => {
  const { token, email } = await register(api);
  const { id, ref } = (await post('/projects', token, { name: 'kept-data' })).body;
  const remove = () => post('/auth/me/delete', token, { password });
  assert.equal([(await remove()).status, (await remove()).body.code], [409, 'account_in_use']);
  await api.operator.patch(ref, { spec: { deletionPolicy: 'Retain' } });
  await until(
    () => onPlatform('select retained from platform.projects where id = $1', [id]),
    ([row]) => row?.retained === true,
  );
  await api.operator.remove(ref);
  await until(
    () => onPlatform('select from platform.retained_projects where ref = $1', [ref]),
    (rows) => rows.length === 1,
  );
  assert.equal([(await remove()).status, (await remove()).body.code], [409, 'account_in_use']);
  await onPlatform('delete from platform.retained_projects where ref = $1', [ref]);
  assert.is((await post('/auth/me/delete', token, { password: 'wrong' })).status, 401);
  assert.equal((await remove()).body, { ok: true });
  assert.equal([await statusOf(token), (await logIn(email)).status], [401, 401]);
});

test('the last administrator cannot delete their account', async () => {
  const { token, email } = await register(api);
  await onPlatform('update platform.users set is_administrator = email = $1', [email]);
  const refused = await post('/auth/me/delete', token, { password });
  assert.equal([refused.status, refused.body.code], [409, 'last_administrator']);
  await onPlatform('update platform.users set is_administrator = false');
  assert.is((await post('/auth/me/delete', token, { password })).status, 200);
});

test('a request for a password reset returns 403 if there is no mail server', async () => {
  const { status, body } = await api.call('POST', '/auth/password/forgot', { json: { email: 'ann@example.com' } });
  assert.equal([status, body.code], [403, 'mail_not_configured']);
});

test.run();
