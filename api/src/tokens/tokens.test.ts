import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ALL_SCOPES } from '../access/scopes.js';
import { register, startTestApi, until } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const create = async (token: string, json: object = {}) => (await api.call('POST', '/tokens', { token, json })).body;

test('a token is shown once, kept as a hash, listed without its value, and marked when used', async () => {
  const person = await register(api);
  const created = await create(person.token, { name: 'ci' });
  assert.match(created.token, /^pat_[\w-]{43}$/);
  assert.equal(created.scopes, ALL_SCOPES);
  assert.is(created.expires_at, null);
  await api.call('GET', '/auth/me', { token: created.token });
  const list = await until(
    () => api.call('GET', '/tokens', { token: person.token }),
    ({ body }) => body[0].last_used_at !== null,
  );
  assert.is(JSON.stringify(list.body).includes(created.token), false);
  assert.ok(created.token.startsWith(list.body[0].hint));
});

test('a revoked token is refused, and cannot be revoked twice or by another', async () => {
  const person = await register(api);
  const stranger = await register(api);
  const { id, token } = await create(person.token);
  assert.is((await api.call('DELETE', `/tokens/${id}`, { token: stranger.token })).status, 404);
  assert.equal((await api.call('DELETE', `/tokens/${id}`, { token: person.token })).body, { ok: true });
  assert.is((await api.call('GET', '/auth/me', { token })).status, 401);
  assert.is((await api.call('DELETE', `/tokens/${id}`, { token: person.token })).status, 404);
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
  ['POST', '/projects/1/query', 'database:query'],
] as const;

for (const [method, path, scope] of ROUTES) {
  test(`${method} ${path} without ${scope} is a 403 that names it, and without a token a 401`, async () => {
    const { token: session } = await register(api);
    const { token } = await create(session, { scopes: ALL_SCOPES.filter((other) => other !== scope) });
    const refused = await api.call(method, path, { token });
    assert.is(refused.status, 403);
    assert.match(refused.body.detail, scope);
    assert.is((await api.call(method, path)).status, 401);
  });
}

test('a token gives no more than it has: scopes, projects or time', async () => {
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

test('an unknown scope is refused, and a token ends when it was to', async () => {
  const { token: session } = await register(api);
  const unknown = await api.call('POST', '/tokens', { token: session, json: { scopes: ['root'] } });
  assert.is(unknown.status, 400);
  const { id, token } = await create(session, { expires_in: 60 });
  const { Client } = (await import('pg')).default;
  const platform = new Client({ ...api.cluster.postgres.admin('platform') });
  await platform.connect();
  await platform.query("update platform.tokens set expires_at = now() - interval '1 second' where id = $1", [id]);
  await platform.end();
  assert.is((await api.call('GET', '/auth/me', { token })).status, 401);
});

test.run();
