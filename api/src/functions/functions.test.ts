import { API_VERSION, type EdgeFunction, GROUP, VERSION } from '@slipway/crds';
import { functionVersionName, LABEL_FUNCTION, LABEL_FUNCTION_VERSION } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';

const CODE = 'Deno.serve(() => new Response("hello"));';
let api: TestApi;
let token: string;
let id: number;
let ref: string;

test.before(async () => {
  api = await startTestApi({ openedServices: { shared: ['functions'] } });
  ({ token } = await register(api));
  ({ id, ref } = await project('functional'));
});
test.after(() => api?.close());

async function project(name: string, owner = token): Promise<{ id: number; ref: string }> {
  const { body } = await api.call('POST', '/projects', { token: owner, json: { name } });
  await api.operator.provision(body.ref);
  return body;
}
const call = (method: string, path: string, json?: unknown, as = token) =>
  api.call(method, `/projects/${id}/functions${path}`, { token: as, ...(json === undefined ? {} : { json }) });
const at = (of = ref) => `/apis/${GROUP}/${VERSION}/namespaces/p-${of}/edgefunctions`;
const resources = async (of = ref) => (await api.operator.client.get<{ items: EdgeFunction[] }>(at(of))).items;

/** Writes the status in place of the operator, once the resource satisfies `when`. */
async function answer(name: string, when: (object: EdgeFunction) => boolean, status: object): Promise<void> {
  const all = await until(
    () => resources(),
    (found) => found.some((object) => object.spec.name === name && when(object)),
  );
  const { metadata } = all.find(({ spec }) => spec.name === name) as EdgeFunction;
  const body = { status: { conditions: [], observedGeneration: metadata.generation, ...status } };
  await api.operator.client.patch(`${at()}/${metadata.name}/status`, body);
}

test('a project that failed before it had a namespace gets no function, and the error says why', async () => {
  const { body } = await api.call('POST', '/projects', { token, json: { name: 'failed-early' } });
  await api.operator.setStatus(body.ref, { phase: 'error', message: 'spec.region names no region' } as never);
  const status = () => api.call('GET', `/projects/${body.id}/status`, { token });
  await until(status, ({ body }) => body.status === 'error');
  const made = await api.call('POST', `/projects/${body.id}/functions`, { token, json: { name: 'early', code: CODE } });
  assert.equal([made.status, made.body.code], [409, 'project_not_ready']);
  assert.match(made.body.detail, /names no region/);
});

test('a function is created, listed, read, changed and deleted, each by its integer id', async () => {
  const made = await call('POST', '', { name: 'Hello_1', code: CODE });
  assert.is(made.status, 201, JSON.stringify(made.body));
  const { id: funcId } = made.body;
  assert.type(funcId, 'number');
  assert.equal(
    [made.body.name, made.body.code, made.body.status, made.body.verify_jwt],
    ['Hello_1', CODE, 'pending', true],
  );
  const { body: list } = await call('GET', '');
  assert.equal(
    list.map((each: { id: number }) => each.id),
    [funcId],
  );
  assert.not('code' in list[0]);
  assert.is((await call('GET', `/${funcId}`)).body.code, CODE);
  const changed = await call('PATCH', `/${funcId}`, { code: 'new', verify_jwt: false });
  assert.equal([changed.body.code, changed.body.verify_jwt], ['new', false]);
  assert.is((await call('PATCH', `/${funcId}`, {})).status, 400);
  assert.is((await call('POST', '', { name: 'Hello_1', code: CODE })).status, 409);
  assert.equal((await call('DELETE', `/${funcId}`)).body, { ok: true });
  assert.is((await call('GET', `/${funcId}`)).status, 404);
});

test('a deploy requests the function’s current code, and responds once that code is served', async () => {
  const { body } = await call('POST', '', { name: 'deployed', code: CODE });
  const deploying = call('POST', `/${body.id}/deploy`);
  const isRequested = ({ spec, metadata }: EdgeFunction) => spec.deployedGeneration === metadata.generation;
  await answer('deployed', isRequested, {
    phase: 'deployed',
    message: 'version 1 is deployed',
    deployedVersion: 1,
    newestVersion: 1,
  });
  const done = await deploying;
  assert.is(done.status, 200, JSON.stringify(done.body));
  assert.equal([done.body.status, done.body.deployed_version, done.body.version], ['deployed', 1, 1]);
});

test('a deploy that the operator rejects returns 400 with line and column', async () => {
  const { body } = await call('POST', '', { name: 'broken', code: 'x +' });
  const deploying = call('POST', `/${body.id}/deploy`);
  const problems = [{ message: 'Expression expected', line: 3, column: 28 }];
  await answer('broken', ({ spec }) => spec.deployedGeneration !== 0, { phase: 'error', message: 'line 3', problems });
  const refused = await deploying;
  assert.equal([refused.status, refused.body.code], [400, 'function_invalid']);
  assert.equal(refused.body.problems, problems);
  assert.equal(refused.body.errors, [{ field: 'code', message: 'line 3, column 28: Expression expected' }]);
});

test('a deploy that fails by an unexpected error of the operator returns 503, not 400 for the code', async () => {
  const { body } = await call('POST', '', { name: 'unexpected', code: CODE });
  const deploying = call('POST', `/${body.id}/deploy`);
  const lastTransitionTime = '2026-01-05T09:00:01Z';
  const ready = {
    type: 'Ready',
    status: 'False',
    reason: 'UnexpectedError',
    message: 'see the log',
    lastTransitionTime,
  };
  const failed = { phase: 'error', message: 'see the log of the operator', conditions: [ready] };
  await answer('unexpected', ({ spec }) => spec.deployedGeneration !== 0, failed);
  const { status, body: problem, headers } = await deploying;
  assert.equal([status, problem.code], [503, 'unavailable']);
  assert.ok(headers['retry-after']);
});

test('a deploy or a rollback returns 409 while the project is being deleted', async () => {
  const ending = await project('ending');
  const path = `/projects/${ending.id}/functions`;
  const { body } = await api.call('POST', path, { token, json: { name: 'last', code: CODE } });
  const deploying = api.call('POST', `${path}/${body.id}/deploy`, { token });
  await api.operator.patch(ending.ref, { metadata: { finalizers: ['slipway.dev/engine'] } });
  assert.is((await api.call('DELETE', `/projects/${ending.id}`, { token })).status, 200);
  for (const [action, json] of [['deploy'], ['rollback', { version: 1 }]] as const) {
    const refused = await api.call('POST', `${path}/${body.id}/${action}`, { token, ...(json ? { json } : {}) });
    assert.equal([refused.status, refused.body.code], [409, 'project_deleting'], action);
  }
  const lastTransitionTime = '2026-01-05T09:00:01Z';
  const ready = { type: 'Ready', status: 'False', reason: 'NoProject', message: 'x', lastTransitionTime };
  const find = () => resources(ending.ref);
  const [{ metadata }] = (await until(find, ([only]) => only?.spec.deployedGeneration !== 0)) as [EdgeFunction];
  const status = { phase: 'error', message: 'x', conditions: [ready], observedGeneration: metadata.generation };
  await api.operator.client.patch(`${at(ending.ref)}/${metadata.name}/status`, { status });
  const done = await deploying;
  assert.equal([done.status, done.body.code], [409, 'project_deleting']);
  await api.operator.patch(ending.ref, { metadata: { finalizers: null } });
});

/** Stores a version in place of the operator. */
async function keepVersion(name: string, version: number, code: string): Promise<void> {
  const { metadata } = (await resources()).find(({ spec }) => spec.name === name) as EdgeFunction;
  const labels = { [LABEL_FUNCTION]: metadata.uid as string, [LABEL_FUNCTION_VERSION]: String(version) };
  const body = { metadata: { name: functionVersionName(metadata.name, version), labels }, data: { code } };
  await api.operator.client.create<object>(`/api/v1/namespaces/p-${ref}/configmaps`, body);
}
const deploys = (generation: number) => (object: EdgeFunction) => object.spec.deployedGeneration === generation;
const requestedGeneration = (name: string, generation: number) =>
  until(
    () => specOf(name),
    (spec) => spec?.deployedGeneration === generation,
  );
const specOf = async (name: string) => (await resources()).find(({ spec }) => spec.name === name)?.spec;

test('a deploy is repeated for the newer code if the code changed before the operator saw the deploy', async () => {
  const { body } = await call('POST', '', { name: 'overtaken', code: 'new' });
  await keepVersion('overtaken', 0, 'old');
  const deploying = call('POST', `/${body.id}/deploy`);
  await requestedGeneration('overtaken', 2);
  await call('PATCH', `/${body.id}`, { verify_jwt: false });
  await answer('overtaken', deploys(2), { phase: 'deployed', deployedVersion: 0, newestVersion: 3 });
  await answer('overtaken', deploys(4), { phase: 'deployed', deployedVersion: 3, newestVersion: 3 });
  const done = await deploying;
  assert.equal([done.status, done.body.deployed_version], [200, 3], JSON.stringify(done.body));
});

test('the first deploy of a function succeeds when the operator sees the function late', async () => {
  const { body } = await call('POST', '', { name: 'first', code: 'new' });
  const deploying = call('POST', `/${body.id}/deploy`);
  await requestedGeneration('first', 2);
  await call('PATCH', `/${body.id}`, { verify_jwt: false });
  await answer('first', deploys(2), { phase: 'error', message: 'there is no version 2 any more', newestVersion: 3 });
  await answer('first', deploys(4), { phase: 'deployed', deployedVersion: 3, newestVersion: 3 });
  assert.is((await deploying).status, 200);
});

test('a deploy succeeds once its code is served, even if newer code was saved since', async () => {
  const { body } = await call('POST', '', { name: 'saved', code: 'asked for' });
  await keepVersion('saved', 1, 'asked for');
  const deploying = call('POST', `/${body.id}/deploy`);
  await requestedGeneration('saved', 2);
  await call('PATCH', `/${body.id}`, { code: 'a draft of another' });
  await answer('saved', deploys(2), { phase: 'deployed', deployedVersion: 1, newestVersion: 3 });
  const done = await deploying;
  assert.equal([done.status, done.body.deployed_version], [200, 1], JSON.stringify(done.body));
  assert.is((await specOf('saved'))?.deployedGeneration, 2);
});

test('only one of a concurrent deploy and rollback is served, and the other returns 409', async () => {
  const { body } = await call('POST', '', { name: 'contested', code: 'new' });
  await keepVersion('contested', 1, 'old');
  const deploying = call('POST', `/${body.id}/deploy`);
  await requestedGeneration('contested', 2);
  const rollingBack = call('POST', `/${body.id}/rollback`, { version: 1 });
  await answer('contested', deploys(1), { phase: 'deployed', deployedVersion: 1, newestVersion: 3 });
  const [deployed, rolledBack] = await Promise.all([deploying, rollingBack]);
  assert.equal([deployed.status, deployed.body.code], [409, 'conflict']);
  assert.equal([rolledBack.status, rolledBack.body.deployed_version], [200, 1]);
});

test('a project has at most sixteen concurrent deploys and rollbacks, and one that ends frees a place', async () => {
  const { body } = await call('POST', '', { name: 'waited-for', code: CODE });
  await keepVersion('waited-for', 1, CODE);
  const caller = new AbortController();
  const answered: number[] = [];
  // Only rollbacks: concurrent deploys of one function end each other with a conflict, and would free places.
  const request = { token, signal: caller.signal, json: { version: 1 } };
  for (let rollbacks = 1; rollbacks <= 18; rollbacks++) {
    api.call('POST', `/projects/${id}/functions/${body.id}/rollback`, request).then(
      ({ status }) => answered.push(status),
      () => undefined,
    );
  }
  await until(
    async () => answered,
    ({ length }) => length === 2,
  );
  assert.equal(answered, [429, 429]);
  const another = () => call('POST', `/${body.id}/rollback`, { version: 99 });
  const refused = await another();
  assert.is(refused.status, 429);
  assert.ok(Number(refused.headers['retry-after']) >= 1);
  assert.is((await call('POST', `/${body.id}/deploy`)).status, 429);
  caller.abort();
  await until(another, ({ status }) => status === 404);
});

for (const [what, status] of [
  ['an older version is served', { phase: 'deployed', deployedVersion: 1, newestVersion: 9 }],
  [
    'none is',
    {
      phase: 'error',
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'NoSuchVersion',
          message: 'x',
          lastTransitionTime: '2026-01-05T09:00:01Z',
        },
      ],
    },
  ],
] as const) {
  test(`a rollback returns 404 and is undone if its version was deleted while it ran, where ${what}`, async () => {
    const name = `gone-${what.length}`;
    const { body } = await call('POST', '', { name, code: CODE });
    await keepVersion(name, 5, 'of five');
    const rollingBack = call('POST', `/${body.id}/rollback`, { version: 5 });
    await answer(name, deploys(5), status);
    assert.is((await rollingBack).status, 404);
    assert.is((await specOf(name))?.deployedGeneration, 0);
  });
}

test('a function that kubectl applied is listed with a stable id', async () => {
  const metadata = { name: 'applied' };
  const body = { apiVersion: API_VERSION, kind: 'EdgeFunction', metadata, spec: { name: 'applied', code: CODE } };
  await api.operator.client.create<object>(at(), body);
  const idOf = async () => (await call('GET', '')).body.find(({ name }: { name: string }) => name === 'applied').id;
  const first = await idOf();
  assert.is(await idOf(), first);
  assert.is((await call('GET', `/${first}`)).body.name, 'applied');
});

test('a function that was never deployed has no logs and no versions, and its rollback returns 404', async () => {
  const { body } = await call('POST', '', { name: 'fresh', code: CODE });
  assert.equal((await call('GET', `/${body.id}/versions`)).body, []);
  assert.is((await call('GET', `/${body.id}/logs`)).status, 503);
  assert.is((await call('POST', `/${body.id}/rollback`, { version: 9 })).status, 404);
});

const ROUTES: [string, string, object?][] = [
  ['GET', ''],
  ['PATCH', '', { verify_jwt: false }],
  ['DELETE', ''],
  ['POST', '/deploy'],
  ['POST', '/rollback', { version: 1 }],
  ['GET', '/versions'],
  ['GET', '/logs'],
];
test('a project with 16 MiB of code in its functions gets no further function, even concurrently', async () => {
  const { id: full } = await project('full-of-code');
  const path = `/projects/${full}/functions`;
  const code = 'x'.repeat(1_000_000);
  const create = (n: number) => api.call('POST', path, { token, json: { name: `f${n}`, code } });
  for (let n = 0; n < 15; n++) assert.is((await create(n)).status, 201);
  const together = await Promise.all([create(15), create(16), create(17)]);
  assert.equal(together.map(({ status }) => status).sort(), [201, 413, 413]);
  const refused = together.find(({ status }) => status === 413)?.body;
  assert.is(refused.code, 'code_limit');
  assert.match(refused.detail, /16 MiB/);
  assert.is(refused.errors[0].field, 'code');
  const small = await api.call('POST', path, { token, json: { name: 'small', code: 'x' } });
  assert.is(small.status, 201);
  const grown = await api.call('PATCH', `${path}/${small.body.id}`, { token, json: { code } });
  assert.equal([grown.status, grown.body.code], [413, 'code_limit']);
  const { body: listed } = await api.call('GET', path, { token });
  assert.is(listed.length, 17);
});

test('a function returns 404 through another project, and 403 to a token without the scope', async () => {
  const { body: own } = await call('POST', '', { name: 'own', code: CODE });
  const stranger = await register(api);
  const theirs = await project('theirs', stranger.token);
  const second = await project('second');
  const { body: pat } = await api.call('POST', '/tokens', { token, json: { name: 'few', scopes: ['projects:read'] } });
  for (const [method, path, json] of ROUTES) {
    const ask = (projectId: number, as: string) =>
      api.call(method, `/projects/${projectId}/functions/${own.id}${path}`, { token: as, ...(json ? { json } : {}) });
    assert.is((await ask(id, stranger.token)).status, 404, `${method} ${path}`);
    assert.is((await ask(theirs.id, stranger.token)).status, 404, `${method} ${path}`);
    assert.is((await ask(second.id, token)).status, 404, `${method} ${path}`);
    assert.is((await ask(id, pat.token)).status, 403, `${method} ${path}`);
  }
  assert.is((await call('GET', `/${own.id}`)).status, 200);
});

test('a function of a project without the service is rejected with the setting that opens it', async () => {
  const closed = await startTestApi();
  try {
    const person = await register(closed);
    const { body } = await closed.call('POST', '/projects', { token: person.token, json: { name: 'closed' } });
    const json = { name: 'refused', code: CODE };
    const refused = await closed.call('POST', `/projects/${body.id}/functions`, { token: person.token, json });
    assert.equal([refused.status, refused.body.code], [403, 'service_not_available']);
    assert.match(refused.body.detail, /functions is not available here.*SLIPWAY_SERVICES_SHARED=functions/);
    assert.equal((await closed.call('GET', `/projects/${body.id}/functions`, { token: person.token })).body, []);
  } finally {
    await closed.close();
  }
});

test.run();
