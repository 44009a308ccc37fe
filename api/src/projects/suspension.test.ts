/** Suspensions by the owner and by the platform, which are recorded apart. The owner can't lift the platform's. */
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';

let api: TestApi;
let administrator: string;
let owner: string;
let id: number;
let ref: string;

test.before(async () => {
  api = await startTestApi();
  ({ token: administrator } = await register(api));
  ({ token: owner } = await register(api));
  ({ id, ref } = (await api.call('POST', '/projects', { token: owner, json: { name: 'resting' } })).body);
  await api.operator.provision(ref);
  await until(query, ({ status }) => status === 200);
});
test.after(() => api?.close());

const change = (suspended: boolean | null, token = owner) =>
  api.call('PATCH', `/projects/${id}`, { token, json: { suspended } });
const administer = (suspended: boolean, token = administrator, project = ref) =>
  api.call('PATCH', `/admin/projects/${project}`, { token, json: { suspended } });
const read = async () => (await api.call('GET', `/projects/${id}`, { token: owner })).body;
const seenBy = (by: string | null) => until(read, ({ suspended_by }) => suspended_by === by);
const query = () => api.call('POST', `/projects/${id}/query`, { token: owner, json: { sql: 'select 1' } });
const runSql = async () => {
  const json = {
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'run_sql', arguments: { sql: 'select 1' } },
  };
  const headers = { apikey: 'service-role-key-of-it', accept: 'application/json, text/event-stream' };
  return JSON.stringify((await api.call('POST', `/projects/${id}/mcp`, { json, headers })).body);
};
const specOf = async () => {
  const { suspend = false, suspendedByOwner = false } = (await api.operator.get(ref)).spec;
  return { suspend, suspendedByOwner };
};

test('an owner suspends the project and resumes it, also by null', async () => {
  for (const resumption of [false, null]) {
    const suspended = await change(true);
    assert.equal([suspended.status, suspended.body.suspended_by], [200, 'owner']);
    assert.equal(await specOf(), { suspend: false, suspendedByOwner: true });
    const refused = await query();
    assert.equal([refused.status, refused.body.code], [409, 'project_suspended']);
    assert.match(refused.body.detail, /Its owner suspended it/);
    assert.match(await runSql(), /Its owner suspended it/);
    const resumed = await change(resumption);
    assert.equal([resumed.status, resumed.body.suspended_by], [200, null]);
    assert.is((await query()).status, 200);
  }
});

for (const [who, suspend, resume] of [
  ['an administrator', () => administer(true), () => administer(false)],
  [
    'kubectl',
    () => api.operator.patch(ref, { spec: { suspend: true } }),
    () => api.operator.patch(ref, { spec: { suspend: false } }),
  ],
] as const) {
  test(`a suspension by ${who} can't be lifted by the owner or the owner's tokens`, async () => {
    await suspend();
    await seenBy('platform');
    const { body: pat } = await api.call('POST', '/tokens', { token: owner, json: { name: 'all of mine' } });
    for (const token of [owner, pat.token]) {
      for (const suspended of [false, null]) {
        const { status, body, headers } = await change(suspended, token);
        assert.equal([status, body.code, body.errors[0].field], [409, 'project_suspended', 'suspended']);
        assert.match(headers['content-type'] as string, /problem\+json/);
        assert.match(body.detail, /An administrator of the platform, or kubectl, suspended it/);
      }
      assert.is((await administer(false, token)).status, 403);
    }
    assert.match((await query()).body.detail, /An administrator of the platform, or kubectl, suspended it/);
    assert.match(await runSql(), /An administrator of the platform, or kubectl, suspended it/);
    assert.equal(await specOf(), { suspend: true, suspendedByOwner: false });
    await resume();
    await seenBy(null);
  });
}

test('a suspension by the platform stays when the owner suspends and resumes, and vice versa', async () => {
  assert.is((await change(true)).status, 200);
  assert.is((await administer(true)).status, 200);
  await seenBy('platform');
  assert.is((await change(false)).status, 409);
  assert.is((await change(true)).status, 200, 'a second suspension by the owner');
  assert.equal(await specOf(), { suspend: true, suspendedByOwner: true });
  await administer(false);
  await seenBy('owner');
  assert.is((await query()).status, 409);
  assert.is((await change(false)).body.suspended_by, null);
});

test('a rejected resumption changes no other setting of the same request', async () => {
  await administer(true);
  await seenBy('platform');
  const json = { suspended: false, forms_enabled: true, github_token: 'ghp_1' };
  assert.is((await api.call('PATCH', `/projects/${id}`, { token: owner, json })).status, 409);
  const { forms_enabled, has_github_token } = await read();
  assert.equal([forms_enabled, has_github_token], [false, false]);
  await administer(false);
  await seenBy(null);
});

test('a suspension by an administrator records an Event, and of an unknown project returns 404', async () => {
  await administer(true);
  await administer(false);
  const { items } = await api.operator.client.get<{ items: { reason: string; involvedObject: { name: string } }[] }>(
    '/api/v1/namespaces/default/events',
  );
  const reasons = items.filter(({ involvedObject }) => involvedObject.name === ref).map(({ reason }) => reason);
  assert.ok(reasons.includes('Suspended') && reasons.includes('Resumed'), reasons.join());
  assert.is((await administer(true, administrator, 'no-such-project')).status, 404);
});

test.run();
