/** The test plays the operator's writes on the resource; the end-to-end suite runs the real one. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Answer, register, startTestApi, until } from '../testing.js';
import { Keyring } from './keyring.js';

const api = await startTestApi();
test.after(() => api.close());

async function owner() {
  const { token, email } = await register(api);
  const call = (method: string, path: string, json?: unknown) => api.call(method, path, { token, json });
  const create = async (name: string, more: object = {}) => (await call('POST', '/projects', { name, ...more })).body;
  return { token, email, call, create };
}
const secretOf = async (ref: string, name: string) => {
  const { data = {} } = await api.operator.core.readNamespacedSecret({ namespace: `p-${ref}`, name });
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
};

test('a project is created as a resource, found at once, and shows its secrets once provisioned', async () => {
  const ada = await owner();
  const created = await ada.call('POST', '/projects', { name: 'my-shop', region: 'us-east', plan: 'pro' });
  assert.is(created.status, 201);
  const { id, ref } = created.body;
  assert.match(ref, /^[a-z]{20}$/);
  assert.is((await ada.call('GET', `/projects/${id}/status`)).body.status, 'provisioning');
  const { spec } = await api.operator.get(ref);
  assert.equal(
    [spec.owner, spec.name, spec.region, spec.plan, spec.type],
    [ada.email, 'my-shop', 'us-east', 'pro', 'shared'],
  );
  await api.operator.provision(ref);
  const full = await until(
    () => ada.call('GET', `/projects/${id}`),
    ({ body }) => body.status === 'healthy',
  );
  assert.is(full.body.service_role_key, 'service-role-key-of-it');
  assert.is(full.body.webhook_url, `http://localhost:4000/projects/${id}/deploy?token=webhook-secret-of-it`);
  assert.match(full.body.db_url, /^postgresql:/);
  const status = (await ada.call('GET', `/projects/${id}/status`)).body;
  assert.equal(status.services.storage, { up: false, status: 'unavailable', endpoint: null });
});

test('of names that are asked for at once one project is made, and a name is free again once it is deleted', async () => {
  const ada = await owner();
  const answers = await Promise.all(Array.from({ length: 5 }, () => ada.call('POST', '/projects', { name: 'wanted' })));
  assert.equal(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409]);
  assert.is(answers.find(({ status }) => status === 409)?.body.errors[0].field, 'name');
  const made = answers.find(({ status }) => status === 201)?.body;
  await ada.call('DELETE', `/projects/${made.id}`);
  assert.is((await ada.call('POST', '/projects', { name: 'wanted' })).status, 201);
});

test('a project that kubectl applied gets an id and shows for its owner, and goes when kubectl deletes it', async () => {
  const ada = await owner();
  const ref = `applied-${Date.now() % 100_000}`;
  await api.operator.apply(ref, { owner: ada.email.toUpperCase() });
  const list = await until(
    () => ada.call('GET', '/projects'),
    ({ body }) => body.length === 1,
  );
  const { id, name } = list.body[0];
  assert.is(name, ref);
  await api.operator.remove(ref);
  await until(
    () => ada.call('GET', `/projects/${id}`),
    ({ status }) => status === 404,
  );
  await api.operator.apply(ref, { owner: ada.email });
  const again = await until(
    () => ada.call('GET', '/projects'),
    ({ body }) => body.length === 1,
  );
  assert.is.not(again.body[0].id, id, 'another project gets another id');
});

test('ids and projects are brought in step at start, whatever happened while the API was away', async () => {
  const ada = await owner();
  const { id: gone, ref } = await ada.create('goes-away');
  const { id: stays } = await ada.create('stays');
  await api.operator.remove(ref);
  await api.restart();
  assert.is((await ada.call('GET', `/projects/${gone}`)).status, 404);
  assert.is((await ada.call('GET', `/projects/${stays}`)).status, 200);
});

test("another's project is answered as one that was never there, on every route", async () => {
  const ada = await owner();
  const eve = await owner();
  const { id } = await ada.create('private');
  const routes: [string, string, unknown?][] = [
    ['GET', ''],
    ['PATCH', '', { forms_enabled: true }],
    ['DELETE', ''],
    ['GET', '/status'],
    ['POST', '/reprovision'],
    ['POST', '/query', { sql: 'select 1' }],
  ];
  const strip = ({ status, body }: Answer) => ({ status, ...body, instance: '' });
  for (const [method, path, json] of routes) {
    const others = await eve.call(method, `/projects/${id}${path}`, json);
    const never = await eve.call(method, `/projects/2147483647${path}`, json);
    assert.is(others.status, 404, `${method} ${path}`);
    assert.equal(strip(others), strip(never));
  }
  assert.equal((await eve.call('GET', '/projects')).body, []);
});

test('every setting of the table is taken, shown, kept in its place, and removed by null', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('settings');
  await api.operator.provision(ref);
  const wanted = {
    repo_url: 'https://github.com/ada/shop.git',
    build_command: 'make',
    output_dir: 'public',
    install_command: 'npm ci',
    production_branch: 'release/1',
    email_notifications: true,
    forms_enabled: true,
  };
  const secrets = {
    env_vars: [{ key: 'GREETING', value: 'hello' }],
    slack_webhook: 'https://hooks.slack.com/services/x',
    github_token: 'ghp_canary',
    webhook_secret: 'a-secret-of-my-own',
  };
  const changed = await ada.call('PATCH', `/projects/${id}`, { ...wanted, ...secrets });
  assert.is(changed.status, 200);
  for (const [name, value] of Object.entries(wanted)) assert.equal(changed.body[name], value, name);
  assert.equal(changed.body.env_vars, { GREETING: 'hello' });
  assert.equal([changed.body.webhook_secret, changed.body.has_github_token], ['a-secret-of-my-own', true]);
  assert.is(JSON.stringify(changed.body).includes('ghp_canary'), false);
  const sealed = (await secretOf(ref, 'project-git')).token ?? '';
  assert.is(sealed.includes('ghp_canary'), false);
  assert.is(new Keyring(api.settings.encryptionKeys).open(sealed, `${ref}/project-git`), 'ghp_canary');
  assert.is((await secretOf(ref, 'project-keys'))['anon-key'], 'anon-key-of-it', 'the other keys stay');
  const resource = JSON.stringify(await api.operator.get(ref));
  for (const secret of ['hello', 'hooks.slack', 'ghp_canary', 'a-secret-of-my-own'])
    assert.not(resource.includes(secret), secret);

  const large = { webhook_secret: 'another-secret-of-my-own', env_vars: { A: 'x'.repeat(65_536) } };
  assert.is((await ada.call('PATCH', `/projects/${id}`, large)).status, 400);
  assert.is(
    (await ada.call('GET', `/projects/${id}`)).body.webhook_secret,
    'a-secret-of-my-own',
    'a refusal changes nothing',
  );
  assert.equal((await ada.call('PATCH', `/projects/${id}`, { env_vars: { A: '1', B: '2' } })).body.env_vars, {
    A: '1',
    B: '2',
  });
  const removed = await ada.call('PATCH', `/projects/${id}`, {
    repo_url: null,
    build_command: null,
    env_vars: null,
    slack_webhook: null,
    github_token: null,
  });
  const { repo_url, build_command, output_dir, env_vars, slack_webhook, has_github_token } = removed.body;
  assert.equal([repo_url, build_command, output_dir], [null, 'npm run build', 'public']);
  assert.equal([env_vars, slack_webhook, has_github_token], [{}, null, false]);
  assert.equal((await ada.call('GET', `/projects/${id}`)).body, removed.body);
});

for (const [what, change] of [
  ['nothing', {}],
  ['an unknown field', { nonsense: 1 }],
  ['a variable with a bad name', { env_vars: { '1A': 'x' } }],
  ['a short webhook secret', { webhook_secret: 'short' }],
] as const) {
  test(`a change of ${what} is a 400`, async () => {
    const ada = await owner();
    const { id } = await ada.create('changes');
    assert.is((await ada.call('PATCH', `/projects/${id}`, change)).status, 400);
  });
}

test('an error of env_vars is about the form that was sent', async () => {
  const ada = await owner();
  const { id } = await ada.create('forms');
  const errorsOf = async (env_vars: unknown) =>
    (await ada.call('PATCH', `/projects/${id}`, { env_vars })).body.errors as { field: string; message: string }[];
  const fieldsOf = async (env_vars: unknown) => (await errorsOf(env_vars)).map(({ field }) => field);
  assert.equal(await fieldsOf({ '1A': 'x' }), ['env_vars.1A']);
  assert.equal(await fieldsOf([{ key: 'A' }]), ['env_vars.0.value']);
  assert.equal(await fieldsOf([{ key: '1A', value: 'x' }]), ['env_vars.0.key']);
  const [neither, ...more] = await errorsOf('A=1');
  assert.equal([neither?.field, more], ['env_vars', []]);
  assert.match(neither?.message ?? '', /object/);
  assert.not.match(neither?.message ?? '', /array/);
});

/** A setting by its name over REST and its place in the resource, which kubectl writes. */
const PLACES = {
  repo_url: (value: string) => ({ source: { repoUrl: value } }),
  production_branch: (value: string) => ({ source: { productionBranch: value } }),
  output_dir: (value: string) => ({ build: { outputDir: value } }),
  build_command: (value: string) => ({ build: { buildCommand: value } }),
  install_command: (value: string) => ({ build: { installCommand: value } }),
};
type Setting = keyof typeof PLACES;

const REFUSED: Record<Setting, string[]> = {
  repo_url: [
    ...['', 'ext::sh', 'ext::sh -c id', 'file:///etc', '/etc', '--upload-pack=x', 'https://', 'https:///x'],
    ...['https://-x/y', 'ssh://-oProxyCommand=x/y', 'ssh://git@-x/y', 'git@-x:y', '-x@host:y', 'git@host:-x'],
    ...['https://host/x y', 'https://host/x\ny', 'https://host/x\u0000', 'https://host/\u00a0', 'HTTPS://host/x'],
    ...['https://user:canary@host/x', 'http://canary@host/x', 'https://:canary@host/x', 'https://a@b:canary@host/x'],
    ...[
      'https://user:canary@host',
      'https://user:can/ary@host/x',
      'https://host\\@canary/x',
      'git://user:canary@host/x',
    ],
    ...['ssh://git:canary@host/x', 'user:canary@host:x'],
  ],
  production_branch: ['', '-x', '--upload-pack=x', '/x', '.x', 'a b', 'a\nb', 'a;b'],
  output_dir: ['', '/', '/etc', '..', '../x', 'x/..', 'x/../y', 'x//../y', './..', 'x\ny', 'x\u0000', 'x\u2028/../y'],
  build_command: ['', 'make\u0000'],
  install_command: ['', 'npm ci\u0000'],
};

const TAKEN: Record<Setting, string[]> = {
  repo_url: [
    ...['https://github.com/ada/shop.git', 'http://localhost:3000/x', 'https://host', 'https://[::1]:8080/x'],
    ...['https://host/@scope/x', 'https://host/x?y=a@b', 'git://host/x', 'https://host/ä'],
    ...['git@host:x', 'git@github.com:ada/shop.git', 'ssh://git@host/x', 'ssh://git@host:22/x', 'ssh://host/x'],
  ],
  production_branch: ['main', 'release/1', '_x', '1.0-rc'],
  output_dir: ['dist', '.', './dist', '.output/public', '...', '..x', 'a/..b/c..', 'a//b/', 'my site', 'ä'],
  build_command: ['make', 'make &&\n\tmake install'],
  install_command: ['npm ci', 'true'],
};

/** Returns the responses to `value` by kubectl's change of the resource, and by the change over REST. */
async function atBothDoors(setting: Setting, value: string) {
  const { ada, id, ref } = await doors;
  const kubectl = await api.operator.patch(ref, { spec: PLACES[setting](value) }).then(
    () => 'taken',
    ({ code, body }) => `${code} ${body}`,
  );
  return { kubectl, rest: await ada.call('PATCH', `/projects/${id}`, { [setting]: value }) };
}
const doors = owner().then(async (ada) => ({ ada, ...(await ada.create('doors')) }));

for (const setting of Object.keys(PLACES) as Setting[]) {
  for (const value of REFUSED[setting]) {
    test(`${setting} ${JSON.stringify(value)} is refused over kubectl as over REST, and not repeated`, async () => {
      const { kubectl, rest } = await atBothDoors(setting, value);
      assert.match(kubectl, /^422 /);
      assert.is(rest.status, 400);
      assert.is(rest.body.errors[0].field, setting);
      assert.not.match(kubectl + JSON.stringify(rest.body), 'canary');
    });
  }

  for (const value of TAKEN[setting]) {
    test(`${setting} ${JSON.stringify(value)} is taken over kubectl as over REST`, async () => {
      const { kubectl, rest } = await atBothDoors(setting, value);
      assert.is(kubectl, 'taken');
      assert.is(rest.status, 200);
      assert.is(rest.body[setting], value);
    });
  }
}

test('who puts a token into the address of a repository is told where it goes', async () => {
  const { kubectl, rest } = await atBothDoors('repo_url', 'https://user:canary@host/x');
  assert.match(kubectl, 'a token goes into the Secret that tokenSecretRef names');
  assert.match(rest.body.detail, 'a token goes into github_token');
});

test('a type without an engine here is refused with the reason', async () => {
  const ada = await owner();
  const { status, body } = await ada.call('POST', '/projects', { name: 'big', backend_type: 'dedicated' });
  assert.is(status, 400);
  assert.is(body.errors[0].field, 'backend_type');
  assert.match(body.detail, 'No engine');
});

test('a JWT secret of the owner is brought as a Secret that the project names, and never shown', async () => {
  const ada = await owner();
  const jwt_secret = 'a-secret-that-came-along-with-the-app';
  const created = await ada.create('moved', { jwt_secret });
  assert.is((await secretOf(created.ref, 'project-jwt')).secret, jwt_secret);
  const resource = await api.operator.get(created.ref);
  assert.equal(resource.spec.jwtSecretRef, { name: 'project-jwt', key: 'secret' });
  assert.not(JSON.stringify([resource, created]).includes(jwt_secret));
  assert.is((await ada.call('POST', '/projects', { name: 'weak', jwt_secret: 'short' })).status, 400);
});

test('a deleted project shows `deleting` while a finalizer holds it, takes no change, and then is gone', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('ends');
  await api.operator.patch(ref, { metadata: { finalizers: ['slipway.dev/engine'] } });
  assert.equal((await ada.call('DELETE', `/projects/${id}`)).body, { ok: true });
  assert.is((await ada.call('GET', `/projects/${id}/status`)).body.status, 'deleting');
  assert.is((await ada.call('DELETE', `/projects/${id}`)).status, 200);
  assert.is((await ada.call('PATCH', `/projects/${id}`, { forms_enabled: true })).status, 409);
  await api.operator.patch(ref, { metadata: { finalizers: null } });
  await until(
    () => ada.call('GET', `/projects/${id}`),
    ({ status }) => status === 404,
  );
});

test('a list keeps its array form while it is paged and filtered', async () => {
  const ada = await owner();
  for (const name of ['one', 'two', 'three']) await ada.create(name);
  const page = await ada.call('GET', '/projects?limit=2&offset=1');
  assert.equal(
    page.body.map(({ name }: { name: string }) => name),
    ['two', 'three'],
  );
  assert.is(page.headers['x-total-count'], '3');
  assert.match(String(page.headers.link), '</projects?limit=2&offset=0>; rel="prev"');
  assert.is((await ada.call('GET', '/projects?name=two')).body.length, 1);
  assert.equal((await ada.call('GET', '/projects?status=healthy')).body, []);
  assert.is((await ada.call('GET', '/projects?limit=0')).status, 400);
});

test('a token for named projects sees only those and creates none; without secrets:read it sees no secret', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('shown');
  const { id: other } = await ada.create('hidden');
  await api.operator.provision(ref);
  const scopes = ['projects:read', 'projects:write'];
  const { token } = (await ada.call('POST', '/tokens', { project_ids: [id], scopes })).body;
  const call = (method: string, path: string, json?: unknown) => api.call(method, path, { token, json });
  assert.equal(
    (await call('GET', '/projects')).body.map((project: { id: number }) => project.id),
    [id],
  );
  assert.is((await call('GET', `/projects/${other}`)).status, 404);
  assert.is((await call('POST', '/projects', { name: 'new-one' })).status, 403);
  const { db_url, service_role_key, webhook_url, env_vars, anon_key } = (await call('GET', `/projects/${id}`)).body;
  assert.equal([db_url, service_role_key, webhook_url, env_vars], [null, null, null, null]);
  assert.is(anon_key, 'anon-key-of-it');
});

test('only a dedicated project that failed without a server is provisioned again', async () => {
  const ada = await owner();
  const { id } = await ada.create('not-dedicated');
  assert.is((await ada.call('POST', `/projects/${id}/reprovision`)).status, 400);
  const ref = `vm-${Date.now() % 100_000}`;
  await api.operator.apply(ref, { owner: ada.email, type: 'dedicated', plan: 'team', region: 'us-west' });
  const vm = (
    await until(
      () => ada.call('GET', `/projects?name=${ref}`),
      ({ body }) => body.length === 1,
    )
  ).body[0];
  assert.is((await ada.call('POST', `/projects/${vm.id}/reprovision`)).status, 400);
  await api.operator.setStatus(ref, { phase: 'error', message: 'no server could be had' });
  const again = await until(
    () => ada.call('POST', `/projects/${vm.id}/reprovision`),
    ({ status }) => status === 200,
  );
  assert.equal(again.body, { ok: true, server_type: 'cpx31', location: 'hil' });
  await api.operator.setStatus(ref, { phase: 'error', server: { id: '1' } });
  await until(
    () => ada.call('POST', `/projects/${vm.id}/reprovision`),
    ({ status }) => status === 400,
  );
});

test.run();
