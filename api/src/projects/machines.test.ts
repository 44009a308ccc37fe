/**
 * Tests the routes for the machine of a dedicated project: its services, their restarts, and another attempt to
 * provision it. The test writes in place of the operator.
 */
import { MACHINE_UNITS, MOST_REQUESTS, type ProjectStatus, RESTARTABLE_UNITS } from '@slipway/crds';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const TIMEOUT_MS = 1_500;
const api = await startTestApi({ restartTimeoutMs: TIMEOUT_MS });
test.after(() => api.close());

type Server = NonNullable<ProjectStatus['server']>;
const running = (mainPid: number) => ({
  status: 'running' as const,
  since: '2026-11-29T10:00:00.000Z',
  restarts: 1,
  mainPid,
  memoryBytes: 61_000_000,
});
const SERVER: Server = {
  id: '7',
  units: Object.fromEntries(MACHINE_UNITS.map((name, index) => [name, running(700 + index)])),
  unitsObservedAt: '2026-11-29T10:05:00.000Z',
};
let made = 0;

/** A dedicated project with this status. */
async function machine(status: ProjectStatus = { phase: 'healthy', server: SERVER }) {
  const { token, email } = await register(api);
  const call = (method: string, path: string, as = token) => api.call(method, path, { token: as, json: undefined });
  made += 1;
  const ref = `vm-${process.pid}-${made}`;
  await api.operator.apply(ref, { owner: email, type: 'dedicated', plan: 'team', region: 'us-west' });
  await api.operator.setStatus(ref, status);
  const [{ id }] = (
    await until(
      () => call('GET', `/projects?name=${ref}&status=${status.phase}`),
      ({ body }) => body.length === 1,
    )
  ).body;
  const restart = (service: string, as = token) => call('POST', `/projects/${id}/services/${service}/restart`, as);
  const requested = async () => (await api.operator.get(ref)).spec.machine?.restarts ?? {};
  return { id: id as number, ref, token, call, restart, requested };
}
type Machine = Awaited<ReturnType<typeof machine>>;

/** Answers the request for a restart as the operator does. */
async function answer({ ref, requested }: Machine, service: 'auth' | 'nginx', error?: string): Promise<number> {
  const number = await until(async () => (await requested())[service], 'a restart is requested');
  const at = new Date().toISOString();
  const restarts = { [service]: { number, at, ...(error && { error }) } };
  const units = { ...SERVER.units, [service]: running(900) };
  await api.operator.setStatus(ref, { server: { restarts, units } });
  return number;
}

test('the services of a machine are those that the operator observed', async () => {
  const { id, call } = await machine();
  const { status, body } = await call('GET', `/projects/${id}/services`);
  assert.is(status, 200);
  assert.equal(Object.keys(body.services), [...MACHINE_UNITS]);
  assert.equal(body.services.auth, {
    status: 'running',
    unit: 'slipway-auth',
    since: '2026-11-29T10:00:00.000Z',
    restarts: 1,
    main_pid: 700,
    memory_bytes: 61_000_000,
  });
  assert.is(body.observed_at, '2026-11-29T10:05:00.000Z');
});

test('services that were not observed yet are unknown', async () => {
  const { id, call } = await machine({ phase: 'provisioning' });
  const { status, body } = await call('GET', `/projects/${id}/services`);
  const statuses = Object.values(body.services as Record<string, { status: string }>).map((one) => one.status);
  assert.equal([status, body.observed_at], [200, null]);
  assert.equal(
    statuses,
    MACHINE_UNITS.map(() => 'unknown'),
  );
});

test('projects of other types have no services on a machine', async () => {
  const { token } = await register(api);
  for (const backend_type of ['shared', 'frontend']) {
    const json = { name: `a-${backend_type}`, backend_type };
    const { id } = (await api.call('POST', '/projects', { token, json })).body;
    const routes = [
      ['GET', 'services'],
      ['POST', 'services/auth/restart'],
    ] as const;
    for (const [method, path] of routes) {
      const { status, body } = await api.call(method, `/projects/${id}/${path}`, { token });
      assert.equal([status, body.code], [400, 'wrong_type'], `${backend_type} ${path}`);
    }
  }
});

test('a restart is requested by a number, and responds when the operator has done it', async () => {
  const own = await machine();
  const response = own.restart('auth');
  assert.is(await answer(own, 'auth'), 1);
  const { status, body } = await response;
  assert.is(status, 200);
  assert.equal(body, { ok: true, service: 'auth', systemd_unit: 'slipway-auth', status: 'running' });
  assert.equal(await own.requested(), { auth: 1 });
});

test('each of several restarts at once has a number, and the answer to the last one answers all', async () => {
  const own = await machine();
  const responses = Array.from({ length: 4 }, () => own.restart('nginx'));
  await until(own.requested, ({ nginx }) => nginx === 4);
  await answer(own, 'nginx');
  assert.equal(
    (await Promise.all(responses)).map(({ status }) => status),
    [200, 200, 200, 200],
  );
});

test('a restart after one that kubectl or a replaced spec forgot has a number that was not used', async () => {
  const restarts = { auth: { number: 40, at: '2026-11-29T10:00:00.000Z' } };
  const own = await machine({ phase: 'healthy', server: { ...SERVER, restarts } });
  const response = own.restart('auth');
  await until(own.requested, ({ auth }) => auth === 41);
  await answer(own, 'auth');
  assert.is((await response).status, 200);
  await api.operator.patch(own.ref, { spec: { machine: { restarts: { auth: MOST_REQUESTS } } } });
  const wrapped = own.restart('auth');
  await until(own.requested, ({ auth }) => auth === 1);
  await answer(own, 'auth');
  assert.is((await wrapped).status, 200);
});

test('a restart that failed is a 500 with the reason', async () => {
  const own = await machine();
  const response = own.restart('auth');
  await answer(own, 'auth', 'The machine does not respond.');
  const { status, body } = await response;
  assert.equal([status, body.code], [500, 'restart_failed']);
  assert.match(body.detail, 'slipway-auth was not restarted: The machine does not respond.');
});

test('a restart that the operator does not report is a 503 with Retry-After, and stays requested', async () => {
  const own = await machine();
  const begun = performance.now();
  const { status, headers, body } = await own.restart('auth');
  assert.equal([status, body.code, headers['retry-after']], [503, 'unavailable', '30']);
  assert.ok(performance.now() - begun >= TIMEOUT_MS);
  assert.equal(await own.requested(), { auth: 1 });
});

test('a restart gets a 409 if the project is deleted before the operator reports it', async () => {
  const own = await machine();
  await api.operator.patch(own.ref, { metadata: { finalizers: ['example.com/held'] } });
  const response = own.restart('auth');
  await until(own.requested, ({ auth }) => auth === 1);
  await own.call('DELETE', `/projects/${own.id}`);
  assert.is((await response).body.code, 'project_deleting');
  await api.operator.patch(own.ref, { metadata: { finalizers: null } });
});

test('another service, a suspended project and a machine without services are rejected', async () => {
  const own = await machine();
  for (const name of ['postgres', 'pgbouncer', 'functions', 'slipway-auth', 'AUTH', '__proto__', 'a%2fb']) {
    assert.is((await own.restart(name)).status, 400, name);
  }
  await own.call('POST', `/projects/${own.id}/suspend`);
  assert.is((await own.restart('auth')).body.code, 'project_suspended');
  const fresh = await machine({ phase: 'provisioning' });
  for (const name of RESTARTABLE_UNITS) assert.is((await fresh.restart(name)).body.code, 'project_not_ready');
  assert.equal([await own.requested(), await fresh.requested()], [{}, {}]);
});

test('another account and a token without the scope get no services, restarts or machines', async () => {
  const own = await machine({ phase: 'error' });
  const { token: eve } = await register(api);
  const scoped = async (scope: string) =>
    (await api.call('POST', '/tokens', { token: own.token, json: { name: scope, scopes: [scope] } })).body.token;
  const [reads, other] = [await scoped('projects:read'), await scoped('database:query')];
  const at = `/projects/${own.id}`;
  assert.is((await own.call('GET', `${at}/services`, eve)).status, 404);
  assert.is((await own.call('GET', `${at}/services`, other)).status, 403);
  assert.is((await own.call('GET', `${at}/services`, reads)).status, 200);
  for (const path of ['services/auth/restart', 'reprovision']) {
    assert.is((await own.call('POST', `${at}/${path}`, eve)).status, 404);
    assert.is((await own.call('POST', `${at}/${path}`, reads)).status, 403);
  }
  assert.is((await api.operator.get(own.ref)).spec.machine, undefined);
});

test('a project that failed without a server is provisioned again by a number, and another one is not', async () => {
  const failed = await machine({ phase: 'error', message: 'no server could be had' });
  const again = () => failed.call('POST', `/projects/${failed.id}/reprovision`);
  const { status, body } = await again();
  assert.equal([status, body], [200, { ok: true, server_type: 'cpx31', location: 'hil' }]);
  assert.is((await again()).status, 200);
  assert.equal((await api.operator.get(failed.ref)).spec.machine, { provision: 2 });
  for (const state of [
    { phase: 'error', server: { id: '1' } },
    { phase: 'provisioning' },
    { phase: 'healthy' },
  ] as const) {
    const other = await machine(state);
    const refused = await other.call('POST', `/projects/${other.id}/reprovision`);
    assert.equal([refused.status, refused.body.code], [400, 'not_reprovisionable'], JSON.stringify(state));
    assert.is((await api.operator.get(other.ref)).spec.machine, undefined);
  }
  const { token } = await register(api);
  const { id } = (await api.call('POST', '/projects', { token, json: { name: 'shared' } })).body;
  assert.is((await api.call('POST', `/projects/${id}/reprovision`, { token })).body.code, 'not_reprovisionable');
});

test.run();
