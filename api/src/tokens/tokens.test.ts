import { until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ALL_SCOPES, withoutAdministration } from '../http/scopes.js';
import { register, startTestApi } from '../testing.js';
import { TOKENS_PER_USER } from './tokens.service.js';

const api = await startTestApi();
test.after(() => api.close());

/** Scopes of an account that is not an administrator. */
const SCOPES = withoutAdministration(ALL_SCOPES);
const create = async (token: string, json: object = {}) => (await api.call('POST', '/tokens', { token, json })).body;

test('a token is shown once, stored as a hash, listed without its value, and marked when used', async () => {
  const person = await register(api);
  const created = await create(person.token, { name: 'ci' });
  assert.match(created.token, /^pat_[\w-]{43}$/);
  assert.equal(created.scopes, SCOPES);
  assert.is(created.expires_at, null);
  await api.call('GET', '/auth/me', { token: created.token });
  const list = await until(
    () => api.call('GET', '/tokens', { token: person.token }),
    ({ body }) => body[0].last_used_at !== null,
  );
  assert.is(JSON.stringify(list.body).includes(created.token), false);
  assert.ok(created.token.startsWith(list.body[0].hint));
});

test('a revoked token is rejected, and cannot be revoked twice or by another account', async () => {
  const person = await register(api);
  const stranger = await register(api);
  const { id, token } = await create(person.token);
  assert.is((await api.call('DELETE', `/tokens/${id}`, { token: stranger.token })).status, 404);
  assert.equal((await api.call('DELETE', `/tokens/${id}`, { token: person.token })).body, { ok: true });
  assert.is((await api.call('GET', '/auth/me', { token })).status, 401);
  assert.is((await api.call('DELETE', `/tokens/${id}`, { token: person.token })).status, 404);
});

async function onPlatform<T>(run: (platform: pg.Client) => Promise<T>): Promise<T> {
  const platform = new pg.Client(api.cluster.postgres.admin('platform'));
  await platform.connect();
  try {
    return await run(platform);
  } finally {
    await platform.end();
  }
}

test('a session that ends during the creation of a token creates none', async () => {
  const person = await register(api);
  await onPlatform(async (platform) => {
    const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%platform.users%'";
    await platform.query('begin');
    await platform.query('select from platform.users where email = $1 for update', [person.email]);
    const making = api.call('POST', '/tokens', { token: person.token, json: {} });
    await until(
      () => onPlatform((other) => other.query(waiting)),
      ({ rowCount }) => rowCount === 1,
    );
    await platform.query(
      'delete from platform.sessions s using platform.users u where u.id = s.user_id and u.email = $1',
      [person.email],
    );
    await platform.query('commit');
    assert.is((await making).status, 401);
    const { rows } = await platform.query(
      'select t.id from platform.tokens t join platform.users u on u.id = t.user_id where u.email = $1',
      [person.email],
    );
    assert.equal(rows, []);
  });
});

const ROUTES = [
  ['GET', '/auth/me', 'account:read'],
  ['GET', '/tokens', 'tokens:read'],
  ['POST', '/tokens', 'tokens:write'],
  ['DELETE', '/tokens/1', 'tokens:write'],
  ['GET', '/projects', 'projects:read'],
  ['POST', '/projects', 'projects:write'],
  ['GET', '/projects/1', 'projects:read'],
  ['PATCH', '/projects/1', 'projects:write'],
  ['DELETE', '/projects/1', 'projects:delete'],
  ['GET', '/projects/1/status', 'projects:read'],
  ['POST', '/projects/1/reprovision', 'projects:write'],
  ['GET', '/projects/1/services', 'projects:read'],
  ['POST', '/projects/1/services/auth/restart', 'projects:write'],
  ['POST', '/projects/1/query', 'database:query'],
] as const;

for (const [method, path, scope] of ROUTES) {
  test(`${method} ${path} without ${scope} returns 403 and names the scope, and without a token 401`, async () => {
    const { token: session } = await register(api);
    const { token } = await create(session, { scopes: SCOPES.filter((other) => other !== scope) });
    const refused = await api.call(method, path, { token });
    assert.is(refused.status, 403);
    assert.match(refused.body.detail, scope);
    assert.is((await api.call(method, path)).status, 401);
  });
}

test('a token cannot create a token with more scopes, projects or time than its own', async () => {
  const { token: session } = await register(api);
  const narrow = await create(session, {
    scopes: ['tokens:write', 'account:read'],
    project_ids: [5],
    expires_in: 3600,
  });
  const child = await create(narrow.token);
  assert.equal([child.scopes, child.project_ids, child.expires_at], [narrow.scopes, [5], narrow.expires_at]);
  const attempt = (json: object) => api.call('POST', '/tokens', { token: narrow.token, json });
  assert.is((await attempt({ scopes: ['projects:read'] })).status, 403);
  assert.is((await attempt({ project_ids: [5, 6] })).status, 403);
  assert.is((await attempt({ expires_in: 7200 })).status, 400);
});

test('a token revokes tokens within its rights, a 403 names missing rights, and a user token revokes all', async () => {
  const { token: session } = await register(api);
  const scopes = ['tokens:write', 'account:read'];
  const narrow = await create(session, { scopes, project_ids: [5] });
  const revoke = (id: number, token = narrow.token) => api.call('DELETE', `/tokens/${id}`, { token });
  for (const [input, missing, code] of [
    [{ scopes: ['account:read', 'database:query'], project_ids: [5] }, /the scope database:query\./, 'missing_scope'],
    [{ scopes, project_ids: [5, 6] }, /the project 6\./, 'not_allowed'],
    [{ scopes }, /all projects but 5\./, 'not_allowed'],
    [{}, /the scope .*projects:delete.* and all projects but 5\./, 'missing_scope'],
  ] as const) {
    const wider = await create(session, input);
    const refused = await revoke(wider.id);
    assert.equal([refused.status, refused.body.code], [403, code]);
    assert.match(refused.body.detail, missing);
    assert.is((await revoke(wider.id, session)).status, 200);
  }
  const within = await create(session, { scopes: ['account:read'], project_ids: [5] });
  assert.is((await revoke(within.id)).status, 200);
  assert.is((await revoke(narrow.id)).status, 200);
});

test('a revoked token revokes its descendants, and no other token', async () => {
  const { token: session } = await register(api);
  const parent = await create(session);
  const child = await create(parent.token);
  const grandchild = await create(child.token);
  const sibling = await create(parent.token);
  const other = await create(session);
  const status = async ({ token }: { token: string }) => (await api.call('GET', '/auth/me', { token })).status;
  assert.is((await api.call('DELETE', `/tokens/${child.id}`, { token: session })).status, 200);
  assert.equal(await Promise.all([parent, child, grandchild, sibling].map(status)), [200, 401, 401, 200]);
  assert.is((await api.call('DELETE', `/tokens/${parent.id}`, { token: parent.token })).status, 200);
  assert.equal(await Promise.all([parent, sibling, other].map(status)), [401, 401, 200]);
});

test('the longest possible chain of descendants is revoked at once', async () => {
  const { token: session } = await register(api);
  const first = await create(session);
  await onPlatform(async (platform) => {
    const [{ last }] = (await platform.query('select max(id)::int as last from platform.tokens')).rows;
    for (let next = 1; next < TOKENS_PER_USER; next += 1) {
      await platform.query(
        `insert into platform.tokens (user_id, name, hash, hint, scopes, parent_id)
         select user_id, '', sha256(id::text::bytea), '', scopes, id from platform.tokens where id = $1`,
        [last + next - 1],
      );
    }
  });
  assert.is((await api.call('GET', '/tokens', { token: session })).body.length, TOKENS_PER_USER);
  assert.is((await api.call('DELETE', `/tokens/${first.id}`, { token: session })).status, 200);
  assert.equal((await api.call('GET', '/tokens', { token: session })).body, []);
});

test('a token that is revoked while it creates another creates none', async () => {
  const { token: session } = await register(api);
  const { id, token } = await create(session);
  const answer = await onPlatform(async (platform) => {
    await platform.query('begin');
    await platform.query('delete from platform.tokens where id = $1', [id]);
    const making = api.call('POST', '/tokens', { token, json: {} });
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ilike 'insert%tokens%'`;
    await until(
      () => api.admin.query(waiting),
      ({ rowCount }) => rowCount === 1,
    );
    await platform.query('commit');
    return making;
  });
  assert.is(answer.status, 401);
  assert.match(String(answer.headers['www-authenticate']), /invalid_token/);
  assert.equal((await api.call('GET', '/tokens', { token: session })).body, []);
});

test('a token with an unknown scope is rejected, and a token expires at its time', async () => {
  const { token: session } = await register(api);
  const unknown = await api.call('POST', '/tokens', { token: session, json: { scopes: ['root'] } });
  assert.is(unknown.status, 400);
  const { id, token } = await create(session, { expires_in: 60 });
  await onPlatform((platform) =>
    platform.query("update platform.tokens set expires_at = now() - interval '1 second' where id = $1", [id]),
  );
  assert.is((await api.call('GET', '/auth/me', { token })).status, 401);
});

test.run();
