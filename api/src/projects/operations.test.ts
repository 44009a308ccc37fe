/**
 * Tests what an owner does with a whole project over REST: its name, plan and retention, suspension and rotations. The
 * test writes in place of the operator.
 */
import { SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

async function owner() {
  const { token, email } = await register(api);
  const call = (method: string, path: string, json?: unknown, as = token) =>
    api.call(method, path, { token: as, json });
  const create = async (name: string, more: object = {}) => (await call('POST', '/projects', { name, ...more })).body;
  return { token, email, call, create };
}
const specOf = async (ref: string) => (await api.operator.get(ref)).spec;

test('an owner renames a project, and the former name is free', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('before');
  const renamed = await ada.call('PATCH', `/projects/${id}`, { name: 'after' });
  assert.equal([renamed.status, renamed.body.name], [200, 'after']);
  assert.is((await specOf(ref)).name, 'after');
  assert.is((await ada.call('POST', '/projects', { name: 'after' })).body.code, 'name_taken');
  assert.is((await ada.call('POST', '/projects', { name: 'before' })).status, 201);
});

test('a project does not get the name of another one of the owner, and nothing of that change is written', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('mine');
  await ada.create('taken');
  const refused = await ada.call('PATCH', `/projects/${id}`, { name: 'taken', forms_enabled: true });
  assert.equal([refused.status, refused.body.code, refused.body.errors[0].field], [409, 'name_taken', 'name']);
  const { name, formsEnabled } = await specOf(ref);
  assert.equal([name, formsEnabled], ['mine', undefined]);
  const other = await owner();
  const { id: others } = await other.create('elsewhere');
  assert.is((await other.call('PATCH', `/projects/${others}`, { name: 'taken' })).status, 200, 'of another owner');
});

test('two projects that get one name at the same time are one renamed and one refused', async () => {
  const ada = await owner();
  const created = await Promise.all(['one', 'two', 'three'].map((name) => ada.create(`first-${name}`)));
  const results = await Promise.all(created.map(({ id }) => ada.call('PATCH', `/projects/${id}`, { name: 'wanted' })));
  assert.equal(results.map(({ status }) => status).sort(), [200, 409, 409]);
});

test('a name that the Kubernetes API refuses to write leaves the former one taken', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('kept');
  await api.operator.client.request({ method: 'DELETE', path: `/apis/slipway.dev/v1alpha1/projects/${ref}` });
  const gone = await ada.call('PATCH', `/projects/${id}`, { name: 'lost' });
  assert.is(gone.status, 404);
  const { rows } = await api.platform.query("select from platform.projects where held_name = 'lost'");
  assert.is(rows.length, 0);
});

test('an owner changes the plan within what the account may have, and the retention of the data', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('growing');
  const grown = await ada.call('PATCH', `/projects/${id}`, { plan: 'pro', retain: true });
  assert.equal([grown.status, grown.body.plan, grown.body.retain], [200, 'pro', true]);
  assert.is((await specOf(ref)).deletionPolicy, 'Retain');
  for (const retain of [false, null]) {
    await ada.call('PATCH', `/projects/${id}`, { retain: true });
    assert.is((await ada.call('PATCH', `/projects/${id}`, { retain })).body.retain, false);
    assert.is((await specOf(ref)).deletionPolicy, 'Delete');
  }
  await api.platform.query("update platform.users set allowed_plans = '{free}' where email = $1", [ada.email]);
  const refused = await ada.call('PATCH', `/projects/${id}`, { plan: 'team' });
  assert.equal([refused.status, refused.body.code, refused.body.errors[0].field], [403, 'plan_not_allowed', 'plan']);
  assert.is((await specOf(ref)).plan, 'pro');
  assert.is((await ada.call('PATCH', `/projects/${id}`, { plan: 'free' })).status, 200);
});

test('an owner suspends and resumes a project, but does not lift a suspension by the platform', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('resting');
  for (const [verb, suspended] of [
    ['suspend', true],
    ['suspend', true],
    ['resume', false],
    ['resume', false],
  ] as const) {
    assert.equal((await ada.call('POST', `/projects/${id}/${verb}`)).body, { ok: true });
    assert.is((await specOf(ref)).suspendedByOwner, suspended);
  }
  await api.operator.patch(ref, { spec: { suspend: true } });
  await until(
    () => ada.call('GET', `/projects/${id}`),
    ({ body }) => body.suspended_by === 'platform',
  );
  const refused = await ada.call('POST', `/projects/${id}/resume`);
  assert.equal([refused.status, refused.body.code], [409, 'project_suspended']);
  assert.is((await specOf(ref)).suspend, true);
});

const rotate = ({ call }: Awaited<ReturnType<typeof owner>>, id: number, ...what: string[]) =>
  call('POST', `/projects/${id}/rotate`, { what });
/** Records what the operator records once the new credential works. */
const record = (ref: string, name: string, key: string, number: number) =>
  api.operator.client.patch(`/api/v1/namespaces/p-${ref}/secrets/${name}`, { stringData: { [key]: String(number) } });

test('a rotation gets a number that no credential has, and the status shows its progress', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('leaky');
  await api.operator.provision(ref);
  const rotations = async () => (await ada.call('GET', `/projects/${id}/status`)).body.rotations;
  assert.is(await rotations(), undefined);
  await record(ref, SECRETS.keys.name, SECRETS.keys.jwtSecretRotation, 6);
  assert.equal((await rotate(ada, id, 'jwt_secret', 'database_passwords')).body, { ok: true });
  assert.equal((await specOf(ref)).rotation, { jwtSecret: 7, databasePasswords: 7 });
  assert.equal(await rotations(), { jwt_secret: 'in_progress', database_passwords: 'in_progress' });
  await record(ref, SECRETS.database.name, SECRETS.database.passwordsRotation, 7);
  assert.equal(await rotations(), { jwt_secret: 'in_progress', database_passwords: 'done' });
  await rotate(ada, id, 'api_keys');
  assert.equal((await specOf(ref)).rotation, { jwtSecret: 7, databasePasswords: 7, apiKeys: 1 });
});

test('a JWT secret that the owner brought is replaced by a rotation, and its Secret is deleted', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('moved', { jwt_secret: 'a secret of another platform, long enough' });
  await api.operator.provision(ref);
  await rotate(ada, id, 'api_keys');
  assert.ok((await specOf(ref)).jwtSecretRef, 'the keys alone do not change it');
  await rotate(ada, id, 'jwt_secret');
  const { jwtSecretRef, rotation } = await specOf(ref);
  assert.equal([jwtSecretRef, rotation?.jwtSecret], [undefined, 1]);
  const secret = api.operator.client.get(`/api/v1/namespaces/p-${ref}/secrets/${SECRETS.jwt.name}`);
  assert.is(await secret.then(() => 'there').catch(({ status }) => status), 404);
});

test('a rotation of nothing, of an unknown credential, twice of one, or without a database is refused', async () => {
  const ada = await owner();
  const { id, ref } = await ada.create('steady');
  for (const what of [[], ['everything'], ['api_keys', 'api_keys'], ['__proto__'], 'api_keys']) {
    assert.is((await ada.call('POST', `/projects/${id}/rotate`, { what })).status, 400, JSON.stringify(what));
  }
  const { id: site } = await ada.create('a-site', { backend_type: 'frontend' });
  const refused = await rotate(ada, site, 'jwt_secret');
  assert.equal([refused.status, refused.body.errors[0].field], [400, 'what']);
  assert.is((await specOf(ref)).rotation, undefined);
});

test('another account and a token without the scope neither rotate, suspend nor resume a project', async () => {
  const [ada, eve] = await Promise.all([owner(), owner()]);
  const { id, ref } = await ada.create('guarded');
  const { body: reader } = await ada.call('POST', '/tokens', { name: 'reads', scopes: ['projects:read'] });
  for (const path of ['rotate', 'suspend', 'resume']) {
    const json = path === 'rotate' ? { what: ['api_keys'] } : undefined;
    assert.is((await eve.call('POST', `/projects/${id}/${path}`, json)).status, 404);
    assert.is((await ada.call('POST', `/projects/${id}/${path}`, json, reader.token)).status, 403);
  }
  const { rotation, suspendedByOwner } = await specOf(ref);
  assert.equal([rotation, suspendedByOwner], [undefined, undefined]);
});

test.run();
