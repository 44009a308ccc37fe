/** Tests the rights of administrators, which no other account has. */
import { ANNOTATION_RETAINED_FOR, LABEL_PROJECT, LABEL_RETAINED } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { runCommand } from './commands.js';

let api: TestApi;
let admin: { email: string; token: string; id: number };

const idOf = async (token: string) => (await api.call('GET', '/auth/me', { token })).body.id as number;
async function person() {
  const { email, token } = await register(api);
  return { email, token, id: await idOf(token) };
}
const change = (id: number, json: object, token = admin.token) =>
  api.call('PATCH', `/admin/accounts/${id}`, { token, json });
const remove = (id: number, token = admin.token) => api.call('DELETE', `/admin/accounts/${id}`, { token });

test.before(async () => {
  api = await startTestApi();
  admin = await person();
});
test.after(() => api?.close());

test('a command of npm run admin that is missing, unknown or incomplete is reported as such', async () => {
  const problem = async (...words: string[]) =>
    await runCommand(words, api.platform).then(String, (error: Error) => error.message.split('. The commands are:')[0]);
  assert.is(await problem(), 'a command is missing');
  assert.is(await problem('apoint', 'me@example.com'), 'there is no command "apoint"');
  assert.is(await problem('appoint'), 'appoint needs an argument');
  assert.is(await problem('appoint', 'me', 'you'), 'appoint does not accept "me you"');
});

test('every administration route rejects an account that is not an administrator', async () => {
  const { token, id } = await person();
  for (const [method, path, json] of [
    ['GET', '/admin/accounts'],
    ['GET', `/admin/accounts/${id}`],
    ['PATCH', `/admin/accounts/${id}`, { administrator: true }],
    ['DELETE', `/admin/accounts/${admin.id}`],
    ['GET', '/admin/invitations'],
    ['POST', '/admin/invitations', {}],
    ['DELETE', '/admin/invitations/1'],
  ] as const) {
    const { status, body } = await api.call(method, path, { token, json });
    assert.equal([status, body.code], [403, 'missing_scope'], `${method} ${path}`);
    assert.is((await api.call(method, path, { json })).status, 401, `${method} ${path}`);
  }
});

test('an administrator’s token has the administration scopes only if its creation requested them', async () => {
  const make = async (json: object, token = admin.token) => api.call('POST', '/tokens', { token, json });
  const plain = (await make({})).body;
  assert.not.ok(plain.scopes.some((scope: string) => scope.startsWith('admin:')));
  assert.is((await api.call('GET', '/admin/accounts', { token: plain.token })).status, 403);
  const reader = (await make({ scopes: ['admin:read', 'tokens:write'] })).body.token;
  assert.is((await api.call('GET', '/admin/accounts', { token: reader })).status, 200);
  assert.is((await change(admin.id, { max_projects: 1 }, reader)).status, 403);
  assert.is((await make({ scopes: ['admin:write'] }, reader)).status, 403);
  assert.is((await make({ scopes: ['admin:read'] }, (await person()).token)).status, 403);
});

test('a demoted administrator loses the administration scopes of its tokens at once', async () => {
  const second = await person();
  await change(second.id, { administrator: true });
  const { token } = (await api.call('POST', '/tokens', { token: second.token, json: { scopes: ['admin:read'] } })).body;
  assert.is((await api.call('GET', '/admin/accounts', { token })).status, 200);
  assert.is((await change(second.id, { administrator: false })).status, 200);
  for (const former of [token, second.token])
    assert.is((await api.call('GET', '/admin/accounts', { token: former })).status, 403);
});

test('a disabled account cannot log in or use its tokens until it is enabled', async () => {
  const { email, token, id } = await person();
  const pat = (await api.call('POST', '/tokens', { token, json: {} })).body.token;
  const logIn = (password: string) => api.call('POST', '/auth/login', { json: { email, password } });
  const disabled = await change(id, { disabled: true });
  assert.ok(Date.parse(disabled.body.disabled_at));
  for (const each of [token, pat]) assert.is((await api.call('GET', '/auth/me', { token: each })).status, 401);
  assert.equal((await logIn('correct horse')).body.code, 'account_disabled');
  assert.is((await logIn('a wrong one')).status, 401);
  assert.is((await change(id, { disabled: false })).body.disabled_at, null);
  for (const each of [token, pat]) assert.is((await api.call('GET', '/auth/me', { token: each })).status, 200);
});

test('the last administrator can be neither demoted, disabled nor deleted', async () => {
  for (const attempt of [
    await change(admin.id, { administrator: false }),
    await change(admin.id, { disabled: true }),
    await remove(admin.id),
  ]) {
    assert.equal([attempt.status, attempt.body.code], [409, 'last_administrator']);
  }
});

test('a disabled administrator does not count as the last administrator', async () => {
  const other = await person();
  await change(other.id, { administrator: true, disabled: true });
  assert.is((await change(admin.id, { administrator: false })).status, 409);
});

for (const [how, act] of [
  ['demote', (id: number, token: string) => change(id, { administrator: false }, token)],
  ['disable', (id: number, token: string) => change(id, { disabled: true }, token)],
  ['delete', (id: number, token: string) => remove(id, token)],
] as const) {
  test(`one administrator remains when two ${how} each other at once`, async () => {
    for (let round = 0; round < 5; round += 1) {
      const pair = [await person(), await person()] as const;
      for (const { id } of pair) await change(id, { administrator: true });
      await api.platform.query('update platform.users set is_administrator = false where id <> all ($1)', [
        pair.map(({ id }) => id),
      ]);
      await Promise.all([act(pair[0].id, pair[1].token), act(pair[1].id, pair[0].token)]);
      const { rowCount } = await api.platform.query(
        'select from platform.users where is_administrator and disabled_at is null',
      );
      assert.is(rowCount, 1);
      await api.platform.query('update platform.users set is_administrator = true where id = $1', [admin.id]);
    }
  });
}

test('an account can be deleted only once it has no projects, and its tokens are deleted with it', async () => {
  const { token, id } = await person();
  const project = await api.call('POST', '/projects', { token, json: { name: 'stays' } });
  const refused = await remove(id);
  assert.equal([refused.status, refused.body.code], [409, 'account_in_use']);
  await api.call('DELETE', `/projects/${project.body.id}`, { token });
  assert.is((await api.call('GET', '/auth/me', { token })).status, 200);
  await api.platform.query('delete from platform.projects where ref = $1', [project.body.ref]);
  assert.is((await remove(id)).status, 200);
  assert.is((await api.call('GET', '/auth/me', { token })).status, 401);
  assert.is((await remove(id)).status, 404);
});

test('an account whose deleted project left retained data cannot be deleted', async () => {
  const { email, id } = await person();
  const metadata = {
    name: 'p-kept-data',
    labels: { [LABEL_RETAINED]: 'true', [LABEL_PROJECT]: 'kept-data' },
    annotations: { [ANNOTATION_RETAINED_FOR]: email },
  };
  await api.operator.client.create<object>('/api/v1/namespaces', { metadata });
  const refused = await remove(id);
  assert.equal([refused.status, refused.body.code], [409, 'account_in_use']);
  await api.operator.client.delete('/api/v1/namespaces/p-kept-data');
});

test('an account with retained data in a shared Postgres is deleted once the data’s record is removed', async () => {
  const { id } = await person();
  await api.platform.query("insert into platform.retained_projects (ref, owner_id) values ('noted-data', $1)", [id]);
  const refused = await remove(id);
  assert.equal([refused.status, refused.body.code], [409, 'account_in_use']);
  assert.match(refused.body.detail, /noted-data/);
  assert.match(await runCommand(['retained'], api.platform), /noted-data/);
  await runCommand(['forget-retained', 'noted-data'], api.platform);
  assert.is((await remove(id)).status, 200);
});

test('a search for an address that PostgreSQL cannot compare returns 400', async () => {
  const { status, body } = await api.call('GET', '/admin/accounts?email=a%00b', { token: admin.token });
  assert.equal([status, body.errors[0].field], [400, 'email']);
});

test('accounts are listed in pages, each with its allowances and its number of projects', async () => {
  const list = async (query: string) =>
    (await api.call('GET', `/admin/accounts?${query}`, { token: admin.token })).body;
  const [first] = await list('limit=1');
  const [second] = await list(`limit=1&after=${first.id}`);
  assert.ok(second.id > first.id);
  const { email, id, token } = await person();
  await api.call('POST', '/projects', { token, json: { name: 'counted' } });
  const allowed = { allowed_plans: ['free', 'pro'], allowed_types: [], max_projects: 3, max_machines: 2 };
  assert.is((await change(id, allowed)).status, 200);
  const [account] = await list(`email=${email.toUpperCase()}`);
  assert.equal(
    { ...account, created_at: null },
    {
      id,
      email,
      full_name: null,
      administrator: false,
      disabled_at: null,
      ...allowed,
      projects: 1,
      created_at: null,
    },
  );
  assert.is((await change(id, { allowed_plans: null })).body.allowed_plans, null);
  assert.is((await change(id, {})).status, 400);
  assert.is((await change(2_000_000_000, { disabled: true })).status, 404);
});

test.run();
