/** Tests the settings and the status of an app over REST. The test writes in place of the operator. */
import { namespaceOf, SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, secretsOf, startTestApi, type TestApi } from '../testing.js';

let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;
let projects = 0;

test.before(async () => {
  api = await startTestApi();
  person = await register(api);
});
test.after(() => api?.close());

/** Creates a project as kubectl does, because no installation has the type app yet. */
async function makeProject(type: 'app' | 'frontend' | 'shared') {
  const ref = `project-${++projects}`;
  await api.operator.apply(ref, { owner: person.email, type });
  await api.operator.client.create<object>('/api/v1/namespaces', { metadata: { name: namespaceOf(ref) } });
  const { body } = await until(
    () => api.call('GET', `/projects?name=${ref}`, { token: person.token }),
    (answer) => answer.body.length === 1,
  );
  const { id } = body[0] as { id: number };
  const read = async (at = '') => (await api.call('GET', `/projects/${id}${at}`, { token: person.token })).body;
  const change = (json: object) => api.call('PATCH', `/projects/${id}`, { token: person.token, json });
  return { id, ref, read, change };
}

test('health_check_path of an app is set, shown and removed, and its syntax is checked', async () => {
  const { ref, read, change } = await makeProject('app');
  assert.is((await read()).health_check_path, null);
  for (const value of ['/healthz', '/', '/up?deep=1', `/${'x'.repeat(511)}`]) {
    const { status, body } = await change({ health_check_path: value });
    assert.equal([status, body.health_check_path], [200, value]);
    assert.is((await read()).health_check_path, value);
    assert.equal((await api.operator.get(ref)).spec.app, { healthCheckPath: value });
  }
  for (const value of ['', 'healthz', '/a b', '/a\n', '/ä', 5, `/${'x'.repeat(512)}`]) {
    const { status, body } = await change({ health_check_path: value });
    assert.equal([status, body.errors?.[0]?.field], [400, 'health_check_path'], JSON.stringify(value));
  }
  await api.operator.patch(ref, { spec: { app: { restart: 7 } } });
  assert.is((await change({ health_check_path: null })).body.health_check_path, null);
  assert.equal((await api.operator.get(ref)).spec.app, { restart: 7 });
});

test('database_project of an app names a shared project of the account, and null removes it', async () => {
  const { ref, read, change } = await makeProject('app');
  const database = await makeProject('shared');
  const site = await makeProject('frontend');
  assert.is((await read()).database_project, null);
  const { status, body } = await change({ database_project: database.ref });
  assert.equal([status, body.database_project], [200, database.ref]);
  assert.equal((await api.operator.get(ref)).spec.app, { databaseProject: database.ref });
  await api.operator.apply('of-another-account', { owner: (await register(api)).email, type: 'shared' });
  for (const value of ['of-another-account', 'nothing', ref, site.ref, '../x', '', 7]) {
    const refused = await change({ database_project: value });
    assert.equal([refused.status, refused.body.errors?.[0]?.field], [400, 'database_project'], String(value));
  }
  assert.is((await database.change({ database_project: database.ref })).status, 400, 'of a project of another type');
  assert.is((await read()).database_project, database.ref);
  assert.is((await change({ database_project: null })).body.database_project, null);
});

test('database_project needs a token that may see the other project and its secrets', async () => {
  const { id, ref } = await makeProject('app');
  const database = await makeProject('shared');
  const by = async (token: object) => {
    const { body } = await api.call('POST', '/tokens', { token: person.token, json: { name: 'narrow', ...token } });
    const json = { database_project: database.ref };
    return (await api.call('PATCH', `/projects/${id}`, { token: body.token, json })).status;
  };
  const scopes = ['projects:read', 'projects:write'];
  assert.is(await by({ scopes }), 403);
  assert.is(await by({ scopes: [...scopes, 'secrets:read'], project_ids: [id] }), 400);
  assert.is((await api.operator.get(ref)).spec.app, undefined);
  assert.is(await by({ scopes: [...scopes, 'secrets:read'], project_ids: [id, database.id] }), 200);
});

test('health_check_path of a project of another type is a 400 that changes nothing, unless it is null', async () => {
  for (const type of ['shared', 'frontend'] as const) {
    const { ref, read, change } = await makeProject(type);
    const { status, body } = await change({ health_check_path: '/up', mcp_writes: true });
    assert.equal([status, body.errors?.[0]?.field], [400, 'health_check_path'], type);
    assert.is(body.detail, `health_check_path: only an app has it, and this is a ${type} project`);
    assert.is((await api.operator.get(ref)).spec.mcpWrites, undefined);
    assert.is((await change({ health_check_path: null, mcp_writes: true })).status, 200);
    assert.is((await read()).health_check_path, null);
  }
});

test('settings of sites are stored for an app too, as they are for a project with a database', async () => {
  const settings = {
    build_command: 'make',
    install_command: '',
    output_dir: 'out',
    previews: true,
    forms_enabled: true,
  };
  for (const type of ['app', 'shared'] as const) {
    const { change } = await makeProject(type);
    const { status, body } = await change(settings);
    assert.is(status, 200, type);
    for (const [name, value] of Object.entries(settings)) assert.equal(body[name], value, name);
  }
});

test('the status of an app shows the members of its container that are known', async () => {
  const { ref, read } = await makeProject('app');
  const startedAt = '2026-05-04T10:00:00Z';
  const container = { image: 'sha256:ab', startedAt, restarts: 0, lastExitCode: 0, memoryBytes: 48_000_000 };
  for (const [service, members] of [
    [{}, {}],
    [
      { restarts: 3, lastExitCode: 137 },
      { restarts: 3, last_exit_code: 137 },
    ],
    [
      container,
      { image: 'sha256:ab', started_at: startedAt, restarts: 0, last_exit_code: 0, memory_bytes: 48_000_000 },
    ],
  ] as const) {
    const app = { up: true, status: 'running', ...service };
    await api.operator.setStatus(ref, { services: { app } });
    const expected = { up: true, status: 'running', endpoint: null, ...members };
    const shown = await until(
      () => read('/status'),
      ({ services }) => Object.keys(services.app ?? {}).length === Object.keys(expected).length,
    );
    assert.equal(shown.services.app, expected);
  }
});

test('variables of an app get the target runtime by default, and other types get all', async () => {
  const targets = async ({ read }: Awaited<ReturnType<typeof makeProject>>) =>
    Object.fromEntries((await read('/env')).map(({ key, target }: Record<string, string>) => [key, target]));
  const variables = [
    { key: 'BOTH', value: '1', target: 'all' },
    { key: 'BUILDS', value: '1', target: 'build' },
    { key: 'PLAIN', value: '1' },
  ];
  for (const [type, byDefault] of [
    ['app', 'runtime'],
    ['frontend', 'all'],
  ] as const) {
    const project = await makeProject(type);
    assert.is((await project.change({ env_vars: variables })).status, 200);
    assert.equal(await targets(project), { BOTH: 'all', BUILDS: 'build', PLAIN: byDefault }, type);
    await project.change({ env_vars: { BOTH: '2', BUILDS: '2', NEW: '2' } });
    assert.equal(await targets(project), { BOTH: 'all', BUILDS: 'build', NEW: byDefault }, 'kept names keep targets');
    const { data = {} } = await api.operator.client.get<Secret>(`${secretsOf(project.ref)}/${SECRETS.env.name}`);
    const lines = Buffer.from(data['.targets'] ?? '', 'base64')
      .toString()
      .split('\n');
    assert.equal(lines.sort(), ['BUILDS=build', ...(type === 'app' ? ['NEW=runtime'] : [])]);
  }
});

test('an error names an app with its article', async () => {
  const { read } = await makeProject('app');
  assert.match((await read('/functions')).detail, /^An app project has no database/);
});

test.run();
