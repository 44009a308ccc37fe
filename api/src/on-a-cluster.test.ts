/**
 * Tests the API as on a cluster: projects have host names, an ingress is in front of the API, and pods start in any
 * order.
 */
import { ownerRole, readSite, SECRETS } from '@slipway/installation';
import { freePort, until } from '@slipway/testing';
import { SignJWT } from 'jose';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openPlatformDatabase } from './database/platform-database.js';
import { register, secretsOf, startTestApi, type TestApi } from './testing.js';

const PUBLIC_URL = 'https://slipway.example.com';
const metricsListen = `127.0.0.1:${await freePort()}`;
let api: TestApi;
let token: string;
let id: number;
let ref: string;

test.before(async () => {
  const site = readSite(`publicUrl: ${PUBLIC_URL}\nopenedServices: [storage, functions]\n`);
  api = await startTestApi({
    publicUrl: PUBLIC_URL,
    openedServices: { shared: ['storage', 'functions'] },
    site,
    metricsListen,
  });
  ({ token } = await register(api));
  ({ id, ref } = (await api.call('POST', '/projects', { token, json: { name: 'hosted' } })).body);
});
test.after(() => api?.close());

const suspend = (suspended: boolean, phase: 'suspended' | 'healthy') =>
  api.operator.patch(ref, { spec: { suspend: suspended } }).then(() => api.operator.setStatus(ref, { phase }));
const query = () => api.call('POST', `/projects/${id}/query`, { token, json: { sql: 'select 1' } });

test('a project has its own host name, and routes of the platform have the platform’s host name', async () => {
  const { body } = await api.call('GET', `/projects/${id}`, { token });
  assert.is(body.project_url, `https://${ref}.slipway.example.com`);
  assert.is(body.postgrest_url, `https://${ref}.slipway.example.com/rest/v1`);
  const mcp = await api.call('GET', `/projects/${id}/mcp`, { token });
  assert.is(mcp.body.url, `${PUBLIC_URL}/projects/${id}/mcp`);
  await api.operator.provision(ref);
  const full = await until(
    () => api.call('GET', `/projects/${id}`, { token }),
    (answer) => answer.body.webhook_url !== null,
  );
  assert.ok(full.body.webhook_url.startsWith(`${PUBLIC_URL}/projects/${id}/deploy?token=`));
  const openApi = await api.call('GET', '/openapi.json');
  assert.equal(openApi.body.servers, [{ url: '/' }, { url: PUBLIC_URL }]);
  const types = (await api.call('GET', '/backend-types')).body as { id: string; services: string[] }[];
  assert.ok(types.find((type) => type.id === 'shared')?.services.includes('storage'));
});

test('a project does not change to a plan whose database is on another server', async () => {
  const change = (plan: string) => api.call('PATCH', `/projects/${id}`, { token, json: { plan } });
  const refused = await change('pro');
  assert.equal([refused.status, refused.body.errors[0].field], [400, 'plan']);
  assert.match(refused.body.detail, /has a Postgres server of its own, and a database is not moved/);
  assert.is((await change('starter')).status, 200);
  assert.is((await change('free')).status, 200);
});

test('logins are limited by the address that the ingress appended, not by one that the caller sent', async () => {
  let attempts = 0;
  // Each attempt has its own e-mail address, as attempts are limited by address too.
  const attempt = async (forwarded: string) => {
    const json = { email: `nobody${attempts++}@example.com`, password: 'wrong password' };
    return (await api.call('POST', '/auth/login', { json, headers: { 'x-forwarded-for': forwarded } })).status;
  };
  let last = 401;
  while (last === 401 && attempts < 1_000) last = await attempt(`10.0.${attempts >> 8}.${attempts & 255}, 192.0.2.1`);
  assert.is(last, 429);
  assert.is(await attempt('192.0.2.1, 192.0.2.2'), 401);
});

test('a suspended project reports its suspension, and rejects SQL and functions until it is resumed', async () => {
  await suspend(true, 'suspended');
  const shown = await until(
    () => api.call('GET', `/projects/${id}/status`, { token }),
    ({ body }) => body.status === 'suspended',
  );
  assert.is(shown.status, 200);
  assert.is((await api.call('GET', '/projects?status=suspended', { token })).body[0]?.id, id);
  const refused = [
    await query(),
    await api.call('POST', `/projects/${id}/functions`, { token, json: { name: 'f', code: 'x' } }),
  ];
  for (const { status, body } of refused) {
    assert.equal([status, body.code], [409, 'project_suspended']);
    assert.match(body.detail, /spec\.suspend: false/);
  }
  await suspend(false, 'suspended');
  const resuming = await until(query, ({ body }) => body.code !== 'project_suspended');
  assert.equal([resuming.status, resuming.body.code], [409, 'project_not_ready']);
  await suspend(false, 'healthy');
  await until(query, ({ status }) => status === 200);
});

test('MCP accepts the service_role keys of both secrets during a rotation', async () => {
  const { nextJwtSecret, previousJwtSecret, jwtSecret, name } = SECRETS.keys;
  const secrets = [
    'the-secret-that-signs-now-of-32-bytes',
    'the-one-that-comes-of-32-bytes-or-more',
    'the-one-that-was',
  ];
  const [current, next, previous] = secrets as [string, string, string];
  await api.operator.client.delete(`${secretsOf(ref)}/${name}`);
  const values = { [jwtSecret]: current, [nextJwtSecret]: next, [previousJwtSecret]: previous };
  await api.operator.secret(ref, name, { ...values, [SECRETS.keys.serviceRoleKey]: 'the-key-as-it-is' });
  const ping = async (apikey: string) => {
    const json = { jsonrpc: '2.0', id: 1, method: 'ping' };
    return (await api.call('POST', `/projects/${id}/mcp`, { headers: { apikey }, json })).status;
  };
  const signed = (role: string, secret: string) =>
    new SignJWT({ role }).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(secret));
  assert.is(await ping('the-key-as-it-is'), 200);
  for (const secret of secrets) {
    assert.is(await ping(await signed('service_role', secret)), 200);
    assert.is(await ping(await signed('anon', secret)), 401);
  }
  assert.is(await ping(await signed('service_role', 'a secret of nobody here')), 401);
});

test('a Secret that a Project refers to is not shown if the platform did not create it', async () => {
  await api.operator.secret(ref, 'somebody-elses', { PASSWORD: 'canary' });
  await api.operator.patch(ref, {
    spec: {
      env: { secretRef: { name: 'somebody-elses' } },
      notifications: { slackWebhookSecretRef: { name: 'somebody-elses', key: 'PASSWORD' } },
      formsEnabled: true,
    },
  });
  const { body } = await until(
    () => api.call('GET', `/projects/${id}`, { token }),
    (answer) => answer.body.forms_enabled,
  );
  assert.equal([body.env_vars, body.slack_webhook], [{}, null]);
});

test('the probes report that the API runs, and whether it is ready', async () => {
  assert.equal((await api.call('GET', '/healthz')).body, { ok: true });
  assert.is((await api.call('GET', '/readyz')).status, 200);
  assert.is((await api.call('GET', '/health')).status, 503);
});

test('the metrics count requests by route and status class, and have an address of their own', async () => {
  await api.call('GET', `/projects/${id}`, { token });
  await api.call('GET', '/nowhere');
  const text = await (await fetch(`http://${metricsListen}/metrics`)).text();
  assert.match(text, /^slipway_api_requests_total\{method="GET",route="\/projects\/:id",status="2xx"\} \d+$/m);
  assert.match(text, /^slipway_api_requests_total\{method="any",route="none",status="4xx"\} 1$/m);
  assert.not.match(text, new RegExp(`${ref}|route="/projects/${id}`));
});

test('the API waits at start for a database or role that does not exist yet, and logs this', async () => {
  const { host, port } = api.cluster.postgres.admin();
  const lines: string[] = [];
  const tries = (count: number) =>
    until(
      async () => lines.length,
      (length) => length >= count,
    );
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(line) });
  const role = ownerRole('late');
  const address = `?host=${encodeURIComponent(String(host))}&port=${port}`;
  const opening = openPlatformDatabase(`postgresql://${encodeURIComponent(role)}:canary@/late${address}`, log);
  await tries(1);
  await api.admin.query(`create role "${role}" login password 'canary'`);
  await tries(2);
  await api.admin.query(`create database late owner "${role}"`);
  const orm = await opening;
  assert.equal(await orm.em.execute('select count(*)::int as count from platform.users'), [{ count: 0 }]);
  await orm.close();
  assert.match(lines[0] as string, /platform database not ready/);
  assert.not.match(lines.join(''), /canary/);
});

test('the API fails to start if its database exists but can’t be used', async () => {
  const { host, port } = api.cluster.postgres.admin();
  await api.admin.query(`create role reader login password 'x'`);
  const url = `postgresql://reader:x@/postgres?host=${encodeURIComponent(String(host))}&port=${port}`;
  const error = await openPlatformDatabase(url, pino({ level: 'silent' })).then(
    () => undefined,
    (refused: { code?: string }) => refused.code,
  );
  assert.is(error, '42501');
});

test.run();
