/**
 * Tests the route for the logs of services on a dedicated project's machine. The test serves the lines at the socket in
 * place of the operator.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MACHINE_UNITS, type ProjectSpec, type ProjectStatus } from '@slipway/crds';
import { machineLogsSocket, SECRETS, type UnitLogLine } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const api = await startTestApi();
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-unit-logs-'));
const AT = '2026-11-29T10:00:00.000Z';
const HEALTHY: ProjectStatus = { phase: 'healthy', server: { id: '7', units: { auth: { status: 'running' } } } };
const line = (message: string): UnitLogLine => ({ time: AT, level: 'info', message });
const paths: string[] = [];
let respond: (response: ServerResponse) => void;
const lines =
  (...all: UnitLogLine[]) =>
  (response: ServerResponse) =>
    response.end(JSON.stringify(all));
const operator = createServer(({ url = '' }, response) => {
  paths.push(url);
  respond(response);
});
await new Promise<void>((resolve) => operator.listen(machineLogsSocket(folder), resolve));
test.before.each(() => {
  paths.length = 0;
  respond = lines(line('one'));
});
test.after(async () => {
  operator.closeAllConnections();
  operator.close();
  await api.close();
  rmSync(folder, { recursive: true, force: true });
});

const KEYS = { 'anon-key': 'anon-key-of-the-project', 'jwt-secret': 'jwt/secret+of the [project]' };
const DATABASE = { 'owner-password': 'the-password', 'next-owner-password': 'the-password-2', 'owner-x': 'the-owner' };
let made = 0;

/** A dedicated project with this status. `host`: the folder of its sockets. */
async function machine(status: ProjectStatus = HEALTHY, spec: Partial<ProjectSpec> = {}, host = folder) {
  const { token, email } = await register(api);
  made += 1;
  const ref = `logs-${process.pid}-${made}`;
  await api.operator.apply(ref, { owner: email, type: 'dedicated', plan: 'free', region: 'eu-central', ...spec });
  await api.operator.provision(ref);
  await api.operator.client.patch(`/api/v1/namespaces/p-${ref}/secrets/${SECRETS.keys.name}`, { stringData: KEYS });
  await api.operator.client.patch(`/api/v1/namespaces/p-${ref}/secrets/${SECRETS.database.name}`, {
    stringData: { ...DATABASE, host },
  });
  await api.operator.setStatus(ref, status);
  const [{ id }] = (
    await until(
      () => api.call('GET', `/projects?name=${ref}&status=${status.phase}`, { token }),
      ({ body }) => body.length === 1,
    )
  ).body;
  const logs = (service: string, query = '', as = token) =>
    api.call('GET', `/projects/${id}/services/${service}/logs${query}`, { token: as });
  return { id: id as number, ref, token, logs };
}

test('the lines of each service are those that the operator read', async () => {
  const { logs } = await machine();
  for (const name of MACHINE_UNITS) {
    const { status, body } = await logs(name);
    assert.equal([status, body], [200, { items: [line('one')] }], name);
  }
  assert.equal(
    paths,
    MACHINE_UNITS.map((name) => `/${name}?limit=100`),
  );
  await logs('auth', '?limit=7&level=warn&since=2026-11-29T11:00:00.5%2B01:00');
  assert.is(paths.at(-1), `/auth?limit=7&since=${Date.parse(AT) + 500}&level=warn`);
});

test('services and parameters that are not valid are rejected, and reach no operator', async () => {
  const { logs } = await machine();
  for (const name of ['ssh', 'slipway-auth', 'auth.service', 'AUTH', '__proto__', 'auth%3breboot', '..%2fauth', '*']) {
    assert.is((await logs(name)).status, 400, name);
  }
  const queries = ['limit=0', 'limit=1001', 'limit=x', 'level=all', 'level=', 'more=1'];
  const times = ['today', '-1h', '', '2026-11-29', '1969-01-01T00:00:00Z', '@1', '2026-13-01T00:00:00Z'];
  for (const query of [...queries, ...times.map((time) => `since=${time}`)]) {
    assert.is((await logs('auth', `?${query}`)).status, 400, query);
  }
  assert.equal(paths, []);
});

test('secrets of the project are redacted, also where they begin alike, are encoded or would be cut', async () => {
  const { logs } = await machine();
  const filler = 'x'.repeat(4 * 1024 - 18);
  respond = lines(
    line('a anon-key-of-the-project b'),
    line('the-password-2 the-password the-owner'),
    line(`${KEYS['jwt-secret']} ${encodeURIComponent(KEYS['jwt-secret'])}`),
    line(`${filler} the-password and more`),
  );
  const { items } = (await logs('auth')).body;
  const messages = items.map(({ message }: UnitLogLine) => message);
  assert.equal(messages.slice(0, 3), ['a [redacted] b', '[redacted] [redacted] the-owner', '[redacted] [redacted]']);
  assert.not.match(messages[3], 'the-pass');
});

test('a line is cut at 4 KiB, and the oldest lines at 1 MiB', async () => {
  const { logs } = await machine();
  const long = 'ä'.repeat(3_000);
  respond = lines(...Array.from({ length: 300 }, (_, index) => line(`${index} ${long}`)), line('last'));
  const { status, body } = await logs('auth', '?limit=1000');
  assert.is(status, 200);
  assert.is(body.items.at(-1).message, 'last');
  const [first] = body.items as UnitLogLine[];
  assert.match(first?.message ?? '', /^\d+ ä+…$/);
  const size = Buffer.byteLength(first?.message ?? '');
  assert.ok(size <= 4096 && size > 4080, `${size}`);
  const bytes = Buffer.byteLength(JSON.stringify(body));
  assert.ok(bytes <= 1024 * 1024 + 100 && bytes > 1024 * 1024 - 8192, `${bytes}`);
});

test('a machine that can not be reached is a 503 with Retry-After', async () => {
  const own = await machine();
  const away = await machine(HEALTHY, {}, path.join(folder, 'missing'));
  const refusals: ((response: ServerResponse) => void)[] = [
    (response) => response.writeHead(503).end(),
    (response) => response.destroy(),
    (response) => response.end(JSON.stringify([line('x'.repeat(3 * 1024 * 1024))])),
  ];
  for (const refusal of refusals) {
    respond = refusal;
    const { status, body, headers } = await own.logs('auth');
    assert.equal([status, body.code, headers['retry-after']], [503, 'unavailable', '10']);
    assert.match(body.detail, 'does not respond over SSH');
  }
  assert.is((await away.logs('auth')).status, 503);
});

test('a suspended project, and a machine without services, have no logs', async () => {
  const suspended = await machine({ ...HEALTHY, phase: 'suspended' }, { suspendedByOwner: true });
  assert.is((await suspended.logs('auth')).body.code, 'project_suspended');
  const fresh = await machine({ phase: 'provisioning', server: null } as never);
  assert.equal((await fresh.logs('auth')).body.code, 'project_not_ready');
  assert.equal(paths, []);
});

test('projects of other types have no logs of services', async () => {
  const { token } = await register(api);
  for (const backend_type of ['shared', 'frontend']) {
    const { id } = (await api.call('POST', '/projects', { token, json: { name: backend_type, backend_type } })).body;
    const { status, body } = await api.call('GET', `/projects/${id}/services/auth/logs`, { token });
    assert.equal([status, body.code], [400, 'wrong_type']);
  }
});

test('another account and a token without the scope read no logs', async () => {
  const own = await machine();
  const { token: eve } = await register(api);
  const scoped = async (scope: string) =>
    (await api.call('POST', '/tokens', { token: own.token, json: { name: scope, scopes: [scope] } })).body.token;
  assert.is((await own.logs('auth', '', eve)).status, 404);
  assert.is((await own.logs('auth', '', await scoped('projects:write'))).status, 403);
  assert.is((await own.logs('auth', '', await scoped('projects:read'))).status, 200);
});

test.run();
