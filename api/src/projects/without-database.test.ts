/** Project of a type without a database, applied with kubectl: its view, and the requests that it rejects. */
import { SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';

let api: TestApi;
let token: string;
let id: number;

test.before(async () => {
  api = await startTestApi();
  const owner = await register(api);
  token = owner.token;
  await api.operator.apply('site', { owner: owner.email, type: 'frontend' });
  await api.operator.client.create<object>('/api/v1/namespaces', { metadata: { name: 'p-site' } });
  // The spec has keys that such a project should not have.
  const { keys, database } = SECRETS;
  const values = { [keys.anonKey]: 'anon', [keys.serviceRoleKey]: 'service', [keys.webhookSecret]: 'hook-of-the-site' };
  await api.operator.secret('site', keys.name, values);
  await api.operator.secret('site', database.name, { [database.url]: 'postgresql://left-over' });
  await api.operator.setStatus('site', { phase: 'healthy', message: 'ready' });
  const { body } = await until(
    () => api.call('GET', '/projects', { token }),
    (answer) => answer.body[0]?.status === 'healthy',
  );
  id = body[0].id;
});
test.after(() => api?.close());

test('a project without a database has null for database keys and URLs, and has its webhook', async () => {
  const { body } = await api.call('GET', `/projects/${id}`, { token });
  const { backend_type, db_url, postgrest_url, anon_key, service_role_key, webhook_secret, webhook_url } = body;
  assert.is(backend_type, 'frontend');
  assert.equal([db_url, postgrest_url, anon_key, service_role_key], [null, null, null, null]);
  assert.is(webhook_secret, 'hook-of-the-site');
  assert.is(webhook_url, `http://localhost:4000/projects/${id}/deploy?token=hook-of-the-site`);
  const [listed] = (await api.call('GET', '/projects', { token })).body;
  assert.is(listed.postgrest_url, null);
});

for (const [method, path, json, what] of [
  ['POST', '/query', { sql: 'select 1' }, 'SQL'],
  ['GET', '/mcp', undefined, 'MCP endpoint'],
  ['POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' }, 'MCP endpoint'],
  ['GET', '/functions', undefined, 'edge functions'],
  ['POST', '/functions', { name: 'f', code: 'x' }, 'edge functions'],
  ['GET', '/functions/1', undefined, 'edge functions'],
  ['PATCH', '/functions/1', { code: 'x' }, 'edge functions'],
  ['DELETE', '/functions/1', undefined, 'edge functions'],
  ['POST', '/functions/1/deploy', undefined, 'edge functions'],
  ['GET', '/functions/1/versions', undefined, 'edge functions'],
  ['POST', '/functions/1/rollback', { version: 1 }, 'edge functions'],
  ['GET', '/functions/1/logs', undefined, 'edge functions'],
] as const) {
  test(`${method} ${path} returns 400 with an error that names the type`, async () => {
    const headers = { apikey: 'service' };
    const { status, body } = await api.call(method, `/projects/${id}${path}`, { token, json, headers });
    assert.equal([status, body.code], [400, 'no_database']);
    assert.is(
      body.detail,
      `A frontend project has no database, and therefore no ${what}. Use a project with a database.`,
    );
  });
}

test('the creation of a project without a database returns 400 if it has a JWT secret', async () => {
  const json = { name: 'signed', backend_type: 'frontend', jwt_secret: 'a secret of 32 characters or a few more' };
  const { status, body } = await api.call('POST', '/projects', { token, json });
  assert.equal([status, body.errors], [400, [{ field: 'jwt_secret', message: body.errors[0].message }]]);
  assert.match(body.detail, /a frontend project has no API keys/);
});

test('a project without a database returns 404 to another account', async () => {
  const stranger = await register(api);
  for (const path of ['/mcp', '/functions', '/functions/1'])
    assert.is((await api.call('GET', `/projects/${id}${path}`, { token: stranger.token })).status, 404);
  const json = { sql: 'select 1' };
  assert.is((await api.call('POST', `/projects/${id}/query`, { token: stranger.token, json })).status, 404);
});

test.run();
