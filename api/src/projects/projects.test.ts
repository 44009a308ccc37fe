/** Tests projects over REST. The test writes in place of the operator; the end-to-end suite runs the real operator. */

import { REPOSITORY_FOLDER } from '@slipway/crds';
import { SECRETS, whyTypeUnavailable } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Answer, register, secretsOf, startTestApi } from '../testing.js';
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
  const { data = {} } = await api.operator.client.get<Secret>(`${secretsOf(ref)}/${name}`);
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
};

test('a new project is a Project resource, is found at once, and shows its secrets once provisioned', async () => {
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

test('a rejected body is explained in one sentence for each field', async () => {
  const ada = await owner();
  const { id } = (await ada.call('POST', '/projects', { name: 'explained' })).body;
  const empty = await ada.call('PATCH', `/projects/${id}`, {});
  assert.is(empty.body.detail, 'the body: must have at least one field');
  assert.equal(empty.body.errors, [{ field: '', message: 'must have at least one field' }]);
  const wrong = await ada.call('POST', '/projects', { name: 'y', plan: 'gold' });
  assert.match(wrong.body.detail, /^name: does not have the required form: .*[^.]; plan: must be one of /);
});

test('concurrent creations of one name make one project, and the name is free after its deletion', async () => {
  const ada = await owner();
  const answers = await Promise.all(Array.from({ length: 5 }, () => ada.call('POST', '/projects', { name: 'wanted' })));
  assert.equal(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409]);
  assert.is(answers.find(({ status }) => status === 409)?.body.errors[0].field, 'name');
  const made = answers.find(({ status }) => status === 201)?.body;
  await ada.call('DELETE', `/projects/${made.id}`);
  assert.is((await ada.call('POST', '/projects', { name: 'wanted' })).status, 201);
});

test('a project of kubectl gets an id, is listed for its owner, and disappears when kubectl deletes it', async () => {
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

test('ids and projects are reconciled at start after changes while the API was down', async () => {
  const ada = await owner();
  const { id: deleted, ref } = await ada.create('goes-away');
  const { id: stays } = await ada.create('stays');
  await api.operator.remove(ref);
  await api.restart();
  assert.is((await ada.call('GET', `/projects/${deleted}`)).status, 404);
  assert.is((await ada.call('GET', `/projects/${stays}`)).status, 200);
});

test('every route returns 404 for a project of another account', async () => {
  const ada = await owner();
  const eve = await owner();
  const { id } = await ada.create('private');
  const routes: [string, string, unknown?][] = [
    ['GET', ''],
    ['PATCH', '', { forms_enabled: true }],
    ['DELETE', ''],
    ['GET', '/status'],
    ['GET', '/env'],
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

test('every setting of the table is stored in its field, shown, and removed by null', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('settings');
  await api.operator.provision(ref);
  const settings = {
    repo_url: 'https://github.com/ada/shop.git',
    build_command: 'make',
    output_dir: 'public',
    root_dir: 'apps/web',
    git_submodules: true,
    previews: true,
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
  const changed = await ada.call('PATCH', `/projects/${id}`, { ...settings, ...secrets });
  assert.is(changed.status, 200);
  for (const [name, value] of Object.entries(settings)) assert.equal(changed.body[name], value, name);
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
    'a rejected change changes nothing',
  );
  assert.equal((await ada.call('PATCH', `/projects/${id}`, { env_vars: { A: '1', B: '2' } })).body.env_vars, {
    A: '1',
    B: '2',
  });
  const removed = await ada.call('PATCH', `/projects/${id}`, {
    repo_url: null,
    build_command: null,
    root_dir: null,
    git_submodules: null,
    previews: null,
    env_vars: null,
    slack_webhook: null,
    github_token: null,
  });
  const { repo_url, build_command, output_dir, env_vars, slack_webhook, has_github_token } = removed.body;
  assert.equal([repo_url, build_command, output_dir], [null, 'npm run build', 'public']);
  const { root_dir, git_submodules, previews } = removed.body;
  assert.equal([root_dir, git_submodules, previews], ['.', false, false]);
  assert.equal([env_vars, slack_webhook, has_github_token], [{}, null, false]);
  assert.equal((await ada.call('GET', `/projects/${id}`)).body, removed.body);
});

for (const [what, change] of [
  ['nothing', {}],
  ['an unknown field', { nonsense: 1 }],
  ['a variable with a bad name', { env_vars: { '1A': 'x' } }],
  ['a short webhook secret', { webhook_secret: 'short' }],
] as const) {
  test(`a change of ${what} returns 400`, async () => {
    const ada = await owner();
    const { id } = await ada.create('changes');
    assert.is((await ada.call('PATCH', `/projects/${id}`, change)).status, 400);
  });
}

test('variables are listed with targets but no values, and the object form keeps targets of kept names', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('targets');
  await api.operator.provision(ref);
  const listed = async () => {
    const { status, body } = await ada.call('GET', `/projects/${id}/env`);
    assert.is(status, 200);
    assert.not.match(JSON.stringify(body), 'canary');
    return body.map(({ key, target, ...more }: Record<string, string>) => [key, target, ...Object.keys(more)]);
  };
  const change = async (env_vars: unknown) => (await ada.call('PATCH', `/projects/${id}`, { env_vars })).body.env_vars;
  assert.equal(await listed(), []);
  const variables = [
    { key: 'RUNS', value: 'canary', target: 'runtime' },
    { key: 'BUILDS', value: 'canary', target: 'build' },
    { key: 'BOTH', value: 'canary' },
  ];
  assert.equal(await change(variables), { RUNS: 'canary', BUILDS: 'canary', BOTH: 'canary' });
  const all = [
    ['BOTH', 'all'],
    ['BUILDS', 'build'],
    ['RUNS', 'runtime'],
  ];
  assert.equal(await listed(), all);
  assert.equal(await change({ RUNS: 'canary 2', NEW: 'canary' }), { RUNS: 'canary 2', NEW: 'canary' });
  assert.equal(await listed(), [
    ['NEW', 'all'],
    ['RUNS', 'runtime'],
  ]);
  assert.equal(await change({ NEW: 'canary' }), { NEW: 'canary' });
  await change([{ key: 'RUNS', value: 'canary' }]);
  assert.equal(await listed(), [['RUNS', 'all']], 'a name that was removed and set again has no former target');
  assert.equal((await ada.call('PATCH', `/projects/${id}`, { env_vars: null })).body.env_vars, {});
  assert.equal(await listed(), []);
});

test('variables of an earlier release are listed with the target all', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('earlier');
  await api.operator.provision(ref);
  await api.operator.secret(ref, SECRETS.env.name, { GREETING: 'hello' });
  await api.operator.patch(ref, { spec: { env: { secretRef: { name: SECRETS.env.name } } } });
  const list = await until(
    () => ada.call('GET', `/projects/${id}/env`),
    ({ body }) => body.length > 0,
  );
  assert.equal(list.body, [{ key: 'GREETING', target: 'all' }]);
  assert.equal((await ada.call('GET', `/projects/${id}`)).body.env_vars, { GREETING: 'hello' });
});

test('an error about env_vars names the field in the form that the request used', async () => {
  const ada = await owner();
  const { id } = await ada.create('forms');
  const errorsOf = async (env_vars: unknown) =>
    (await ada.call('PATCH', `/projects/${id}`, { env_vars })).body.errors as { field: string; message: string }[];
  const fieldsOf = async (env_vars: unknown) => (await errorsOf(env_vars)).map(({ field }) => field);
  assert.equal(await fieldsOf({ '1A': 'x' }), ['env_vars.1A']);
  assert.equal(await fieldsOf([{ key: 'A' }]), ['env_vars.0.value']);
  assert.equal(await fieldsOf([{ key: '1A', value: 'x' }]), ['env_vars.0.key']);
  assert.equal(await errorsOf([{ key: 'A', value: 'x', target: 'somewhere' }]), [
    { field: 'env_vars.0.target', message: 'must be one of build, runtime, all' },
  ]);
  const [neither, ...more] = await errorsOf('A=1');
  assert.equal([neither?.field, more], ['env_vars', []]);
  assert.match(neither?.message ?? '', /object/);
  assert.not.match(neither?.message ?? '', /array/);
});

/** A setting with its name over REST and its field in the resource, which kubectl writes. */
const PLACES = {
  repo_url: (value: string) => ({ source: { repoUrl: value } }),
  production_branch: (value: string) => ({ source: { productionBranch: value } }),
  output_dir: (value: string) => ({ build: { outputDir: value } }),
  root_dir: (value: string) => ({ build: { rootDir: value } }),
  build_command: (value: string) => ({ build: { buildCommand: value } }),
  install_command: (value: string) => ({ build: { installCommand: value } }),
};
type Setting = keyof typeof PLACES;

const OUTSIDE = ['', '/', '/etc', '..', '../x', 'x/..', 'x/../y', 'x//../y', './..', 'x\ny', 'x\u0000', 'x\u2028/../y'];
const INSIDE = ['dist', '.', './dist', '.output/public', '...', '..x', 'a/..b/c..', 'a//b/', 'my site', 'ä'];

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
  output_dir: OUTSIDE,
  root_dir: [...OUTSIDE, 'x'.repeat(1025)],
  build_command: ['make\u0000'],
  install_command: ['npm ci\u0000'],
};

const TAKEN: Record<Setting, string[]> = {
  repo_url: [
    ...['https://github.com/ada/shop.git', 'https://host', 'https://[::1]:8080/x'],
    ...['https://host/@scope/x', 'https://host/x?y=a@b', 'https://host/ä'],
    ...['git@host:x', 'git@github.com:ada/shop.git', 'ssh://git@host/x', 'ssh://git@host:22/x', 'ssh://host/x'],
  ],
  production_branch: ['main', 'release/1', '_x', '1.0-rc'],
  output_dir: INSIDE,
  root_dir: [...INSIDE, 'x'.repeat(1024)],
  build_command: ['', 'make', 'make &&\n\tmake install'],
  install_command: ['', 'npm ci', 'true'],
};

/** Returns the responses to a change with `value` by kubectl and over REST. */
async function atBothDoors(setting: Setting, value: string) {
  const { ada, id, ref } = await doors;
  const kubectl = await api.operator.patch(ref, { spec: PLACES[setting](value) }).then(
    () => 'taken',
    ({ status, message }) => `${status} ${message}`,
  );
  return { kubectl, rest: await ada.call('PATCH', `/projects/${id}`, { [setting]: value }) };
}
const doors = owner().then(async (ada) => ({ ada, ...(await ada.create('doors')) }));

const shown = (value: string) => JSON.stringify(value.length > 100 ? `${value[0]} × ${value.length}` : value);

for (const setting of Object.keys(PLACES) as Setting[]) {
  for (const value of REFUSED[setting]) {
    test(`${setting} ${shown(value)} is rejected over kubectl and REST, and no error quotes it`, async () => {
      const { kubectl, rest } = await atBothDoors(setting, value);
      assert.match(kubectl, /^422 /);
      assert.is(rest.status, 400);
      assert.is(rest.body.errors[0].field, setting);
      assert.not.match(kubectl + JSON.stringify(rest.body), 'canary');
    });
  }

  for (const value of TAKEN[setting]) {
    test(`${setting} ${shown(value)} is accepted over kubectl as over REST`, async () => {
      const { kubectl, rest } = await atBothDoors(setting, value);
      assert.is(kubectl, 'taken');
      assert.is(rest.status, 200);
      assert.is(rest.body[setting], value);
    });
  }
}

test('a token in the address of a repository is rejected, and the error names its field', async () => {
  const { kubectl, rest } = await atBothDoors('repo_url', 'https://user:canary@host/x');
  assert.match(kubectl, 'put a token into the Secret that tokenSecretRef names');
  assert.match(rest.body.detail, 'a token goes into github_token');
});

for (const value of ['http://localhost:3000/x', 'http://[::1]/x', 'git://host/x']) {
  test(`repo_url ${value} is rejected over REST with the fix, and accepted over kubectl`, async () => {
    const { kubectl, rest } = await atBothDoors('repo_url', value);
    assert.is(kubectl, 'taken');
    assert.equal([rest.status, rest.body.errors[0].field], [400, 'repo_url']);
    assert.match(rest.body.detail, 'write https:// or ssh://');
    const { ada, id } = await doors;
    assert.is((await ada.call('PATCH', `/projects/${id}`, { output_dir: 'dist' })).body.repo_url, value, 'as stored');
  });
}

for (const setting of ['output_dir', 'root_dir'] as const) {
  test(`${setting} outside the repository is rejected with the same error over kubectl and over REST`, async () => {
    const { kubectl, rest } = await atBothDoors(setting, '../x');
    for (const refusal of [kubectl, rest.body.detail]) assert.match(refusal, REPOSITORY_FOLDER.words);
  });
}

test('a git_submodules that is not a boolean is rejected over kubectl and over REST', async () => {
  const { ada, id, ref } = await doors;
  const kubectl = await api.operator
    .patch(ref, { spec: { source: { submodules: 'yes' } } })
    .catch(({ status }) => status);
  const { status, body } = await ada.call('PATCH', `/projects/${id}`, { git_submodules: 'yes' });
  assert.equal([kubectl, status, body.errors[0].field], [422, 400, 'git_submodules']);
});

test('a backend type that the installation does not offer is rejected with the reason', async () => {
  const ada = await owner();
  const { status, body } = await ada.call('POST', '/projects', { name: 'big', backend_type: 'dedicated' });
  assert.is(status, 400);
  assert.is(body.errors[0].field, 'backend_type');
  assert.is(body.detail, whyTypeUnavailable('dedicated', { publicUrl: 'http://localhost:4000' }));
});

test('a JWT secret of the owner is stored in a Secret that the Project refers to, and never shown', async () => {
  const ada = await owner();
  const jwt_secret = 'a-secret-that-came-along-with-the-app';
  const created = await ada.create('moved', { jwt_secret });
  assert.is((await secretOf(created.ref, 'project-jwt')).secret, jwt_secret);
  const resource = await api.operator.get(created.ref);
  assert.equal(resource.spec.jwtSecretRef, { name: 'project-jwt', key: 'secret' });
  assert.not(JSON.stringify([resource, created]).includes(jwt_secret));
  assert.is((await ada.call('POST', '/projects', { name: 'weak', jwt_secret: 'short' })).status, 400);
});

test('a deleted project has the status `deleting` and rejects changes until its finalizer is removed', async () => {
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

test('a list of projects is an array also when it is paged and filtered', async () => {
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

test('a token for named projects sees no others, creates none, and needs secrets:read to see secrets', async () => {
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

test.run();
