/**
 * Tests owners of Projects that kubectl applied or changed. An owner is an account, decided once and recorded by its
 * id.
 */

import { ANNOTATION_UNOWNED } from '@slipway/crds';
import { ownerRole } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { runCommand } from '../administration/commands.js';
import { type Answer, register, secretsOf, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const PASSWORD = 'correct horse';
let names = 0;
const newRef = () => `owned-${++names}-${Date.now() % 100_000}`;

async function account(email?: string) {
  const given =
    email === undefined
      ? await register(api)
      : {
          email,
          token: (await api.call('POST', '/auth/register', { json: { email, password: PASSWORD } })).body.token,
        };
  const call = (method: string, path: string, json?: unknown) => api.call(method, path, { token: given.token, json });
  return { ...given, call };
}
type Person = Awaited<ReturnType<typeof account>>;

const { onPlatform } = api;

const refsOf = async (person: Person) =>
  (await person.call('GET', '/projects')).body.map(({ ref }: { ref: string }) => ref);
const sees = (person: Person, ref: string) =>
  until(
    () => refsOf(person),
    (refs) => refs.includes(ref),
  );
const projectOf = (ref: string) => api.operator.get(ref);
/** Waits until the API has processed this generation of the Project. */
const settled = (ref: string, generation: number) =>
  until(
    () => onPlatform('select seen_generation from platform.projects where ref = $1', [ref]),
    ([row]) => Number(row?.seen_generation) >= generation,
  );
async function change(ref: string, spec: object) {
  const { metadata } = await api.operator.patch(ref, { spec });
  await settled(ref, (metadata as { generation: number }).generation);
}

/** Returns a project that Ann owns, and Bob, a possible next owner. */
async function projectOfAnn() {
  const [ann, bob, ref] = [await account(), await account(), newRef()];
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
  return { ann, bob, ref };
}

test('a project applied for an address belongs to the account that has the address', async () => {
  const ann = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email.toUpperCase() });
  await sees(ann, ref);
});

test('an account registered after a project was applied for its address does not own the project', async () => {
  const ref = newRef();
  const email = `${ref}@example.com`;
  await api.operator.apply(ref, { owner: email });
  await settled(ref, 1);
  const [{ id } = { id: 0 }] = await onPlatform('select id from platform.projects where ref = $1', [ref]);
  // The project is older than the account by more than the allowed difference of the clocks.
  await onPlatform("update platform.projects set owner_since = owner_since - interval '10 s' where ref = $1", [ref]);
  const stranger = await account(email);
  await api.restart();
  assert.equal(await refsOf(stranger), []);
  for (const [method, path] of [
    ['GET', ''],
    ['GET', '/status'],
    ['DELETE', ''],
    ['GET', '/mcp'],
  ] as const)
    assert.is((await stranger.call(method, `/projects/${id}${path}`)).status, 404, `${method} ${path}`);
});

const markOf = (ref: string) =>
  until(
    () => projectOf(ref),
    ({ metadata }) => metadata.annotations?.[ANNOTATION_UNOWNED] !== undefined,
  ).then(({ metadata }) => metadata.annotations?.[ANNOTATION_UNOWNED]);
const isUnmarked = (ref: string) =>
  until(
    () => projectOf(ref),
    ({ metadata }) => metadata.annotations?.[ANNOTATION_UNOWNED] === undefined,
  );
interface CoreEvent {
  involvedObject: { name: string };
  type: string;
  reason: string;
  message: string;
}
const eventsOf = async (ref: string) => {
  const path = '/api/v1/namespaces/default/events';
  const { items } = await api.operator.client.get<{ items: CoreEvent[] }>(path);
  return items.filter(({ involvedObject }) => involvedObject.name === ref);
};

test('a project whose owner is no account has a condition and an Event with the fix until one owns it', async () => {
  const ann = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: 'Nobody@Example.com' });
  assert.is(await markOf(ref), 'nobody@example.com');
  const [event] = await until(
    () => eventsOf(ref),
    ({ length }) => length > 0,
  );
  assert.equal([event?.type, event?.reason], ['Warning', 'OwnerUnknown']);
  assert.match(
    event?.message ?? '',
    /none had the address nobody@example\.com .* POST \/admin\/projects\/owned-.*\/owner$/,
  );

  await change(ref, { owner: 'nobody-either@example.com' });
  await until(
    () => projectOf(ref),
    ({ metadata }) => metadata.annotations?.[ANNOTATION_UNOWNED] === 'nobody-either@example.com',
  );
  await until(
    () => eventsOf(ref),
    ({ length }) => length === 2,
  );
  await change(ref, { owner: ann.email });
  await isUnmarked(ref);
  assert.is((await eventsOf(ref)).length, 2);
});

test('a project of an account is not marked', async () => {
  const { ref } = await projectOfAnn();
  await api.restart();
  const { metadata } = await projectOf(ref);
  assert.is(metadata.annotations?.[ANNOTATION_UNOWNED], undefined);
  assert.equal(await eventsOf(ref), []);
});

test('an address that another account gave up inherits no project', async () => {
  const ann = await account();
  const heir = await account();
  await onPlatform(
    'insert into platform.former_addresses (address, user_id) select $1, id from platform.users where email = $2',
    [heir.email, ann.email],
  );
  const ref = newRef();
  await api.operator.apply(ref, { owner: heir.email });
  await settled(ref, 1);
  assert.equal(await refsOf(heir), []);
});

test('retained data of an account does not become the data of another account', async () => {
  const ann = await account();
  const eve = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email, deletionPolicy: 'Retain' });
  await sees(ann, ref);
  await api.operator.remove(ref);
  await until(
    () => onPlatform('select from platform.retained_projects where ref = $1', [ref]),
    (rows) => rows.length === 1,
  );
  await api.operator.apply(ref, { owner: eve.email });
  await settled(ref, 1);
  assert.equal(await refsOf(eve), []);
  await api.operator.remove(ref);
  await api.operator.apply(ref, { owner: ann.email, deletionPolicy: 'Delete' });
  await sees(ann, ref);
  await api.operator.remove(ref);
  await until(
    () => onPlatform('select from platform.retained_projects where ref = $1', [ref]),
    (rows) => rows.length === 0,
  );
});

test('a changed spec.owner moves the project to the new owner, and ends the access of the former owner', async () => {
  const { ann, bob, ref } = await projectOfAnn();
  const [{ id }] = (await ann.call('GET', '/projects')).body;
  const pat = (await ann.call('POST', '/tokens', { project_ids: [id] })).body.token;
  const byToken = (): Promise<Answer> => api.call('GET', `/projects/${id}`, { token: pat });
  assert.is((await byToken()).status, 200);
  await change(ref, { owner: bob.email });
  await sees(bob, ref);
  assert.is((await byToken()).status, 404);
  assert.equal(await refsOf(ann), []);
  await change(ref, { owner: 'nobody-has-this@example.com' });
  assert.equal([await refsOf(bob), await refsOf(ann)], [[], []]);
});

test('a changed spec.name cannot be used by another project of the owner', async () => {
  const ann = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email, name: 'first-name' });
  await sees(ann, ref);
  await change(ref, { name: 'second-name' });
  const taken = await ann.call('POST', '/projects', { name: 'second-name' });
  assert.equal([taken.status, taken.body.code], [409, 'name_taken']);
  assert.is((await ann.call('POST', '/projects', { name: 'first-name' })).status, 201);
});

test('a project from a release without owner ids keeps the owner that spec.owner names', async () => {
  const ann = await account();
  const bob = await account();
  const [stays, differs, nobodys] = [newRef(), newRef(), newRef()] as [string, string, string];
  await api.operator.apply(stays, { owner: ann.email });
  await api.operator.apply(differs, { owner: bob.email });
  await api.operator.apply(nobodys, { owner: `${nobodys}@example.com` });
  await Promise.all([settled(stays, 1), settled(differs, 1), settled(nobodys, 1)]);
  await onPlatform(
    `update platform.projects p set seen_generation = null, owner = $1, owner_since = now() - interval '1 day',
       owner_id = (select id from platform.users where email = $1), last_owner_id = null where ref = any ($2)`,
    [ann.email, [stays, differs, nobodys]],
  );
  await api.restart();
  assert.equal([await refsOf(ann), await refsOf(bob)], [[stays], [differs]]);
  await onPlatform("update platform.projects set owner_since = owner_since - interval '10 s' where ref = $1", [
    nobodys,
  ]);
  const late = await account(`${nobodys}@example.com`);
  await api.restart();
  assert.equal(await refsOf(late), []);
  const rows = await onPlatform('select distinct rotation_step from platform.projects where ref = any ($1)', [
    [stays, differs],
  ]);
  assert.equal(rows, [{ rotation_step: 0 }]);
});

test('a row without an owner id is migrated although the account has a project of that name', async () => {
  const ann = await account();
  const bob = await account();
  const [first, second] = [newRef(), newRef()] as [string, string];
  await api.operator.apply(first, { owner: bob.email, name: 'the-same' });
  await sees(bob, first);
  await api.operator.apply(second, { owner: bob.email, name: 'the-same' });
  await sees(bob, second);
  await onPlatform(
    `update platform.projects set seen_generation = null, owner = $1, held_name = 'the-same',
       owner_id = (select id from platform.users where email = $1), last_owner_id = null where ref = $2`,
    [ann.email, second],
  );
  await api.restart();
  assert.equal([await refsOf(ann), await refsOf(bob)], [[], [first, second]]);
});

test('a project applied right before its account is registered belongs to the account', async () => {
  const ref = newRef();
  const email = `${ref}@example.com`;
  await api.operator.apply(ref, { owner: email });
  await settled(ref, 1);
  const late = await account(email);
  await onPlatform("update platform.projects set owner_since = owner_since - interval '2 s' where ref = $1", [ref]);
  await api.restart();
  await sees(late, ref);
});

const secret = async (ref: string, name: string) => {
  const { data = {} } = await api.operator.client.get<Secret>(`${secretsOf(ref)}/${name}`);
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
};
/** Completes a rotation, as the operator does once every verifier accepts the next secret. */
async function rotated(ref: string, name: string, key: string, number: number | undefined) {
  const data = { [key]: Buffer.from(String(number)).toString('base64') };
  await api.operator.client.patch(`${secretsOf(ref)}/${name}`, { data });
}
const stepOf = async (ref: string) =>
  (await onPlatform('select rotation_step from platform.projects where ref = $1', [ref]))[0]?.rotation_step;
const reachesStep = (ref: string, number: number) =>
  until(
    () => stepOf(ref),
    (step) => step === number,
  );

test('a transfer rotates every credential twice, and ends database sessions of the former owner', async () => {
  const ann = await account();
  const bob = await account();
  const { ref } = (await ann.call('POST', '/projects', { name: 'handed-over', jwt_secret: 'j'.repeat(40) })).body;
  await api.operator.provision(ref);
  const before = await secret(ref, 'project-keys');
  const { host, port } = api.cluster.postgres.admin();
  const login = { host, port, user: ownerRole(ref), password: 'owner', database: `p-${ref}` } as pg.ClientConfig;
  const open = new pg.Client(login);
  const ended = new Promise((resolve) => open.on('error', resolve));
  await open.connect();
  await api.operator.patch(ref, { spec: { owner: bob.email } });
  const requested = await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret !== undefined,
  );
  const { jwtSecret, databasePasswords } = requested.spec.rotation ?? {};
  assert.equal([jwtSecret, databasePasswords, requested.spec.jwtSecretRef], [1, 1, undefined]);
  await until(
    () => secret(ref, 'project-keys'),
    (keys) => keys['webhook-secret'] !== before['webhook-secret'],
  );
  await api.restart();
  assert.is((await projectOf(ref)).spec.rotation?.jwtSecret, 1, 'the second rotation waits for the first');
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', jwtSecret);
  await rotated(ref, 'project-database', 'rotation-database-passwords', databasePasswords);
  await api.restart();
  await ended;
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret === 2,
  );
  await reachesStep(ref, 0);
  await sees(bob, ref);
  const [lost] = (await ann.call('GET', '/auth/me')).body.lost_projects;
  assert.equal([lost.ref, lost.cause], [ref, 'spec']);
});

for (const type of ['shared', 'frontend'] as const) {
  test(`a transfer of a ${type} project removes the former owner's git, Slack and signing secrets alone`, async () => {
    const [ann, bob, ref] = [await account(), await account(), newRef()];
    await api.operator.apply(ref, { owner: ann.email, type });
    await sees(ann, ref);
    const [{ id }] = (await ann.call('GET', '/projects')).body;
    const metadata = { name: `p-${ref}` };
    if (type === 'shared') await api.operator.provision(ref);
    else {
      await api.operator.client.create<object>('/api/v1/namespaces', { metadata });
      await api.operator.secret(ref, 'project-keys', { 'webhook-secret': 'webhook-secret-of-it' });
    }
    const settings = { repo_url: 'https://example.com/s.git', email_notifications: true, env_vars: { A: '1' } };
    const given = { github_token: 'ghp_ann', slack_webhook: 'https://hooks.slack.com/services/ann' };
    await ann.call('PATCH', `/projects/${id}`, { ...settings, ...given });
    if (type === 'frontend') assert.is((await ann.call('POST', `/projects/${id}/deploy-key`)).status, 200);
    const keys = { GOTRUE_JWT_KEYS: '[]', GOTRUE_SITE_URL: 'https://a.example' };
    if (type === 'shared') await api.operator.secret(ref, 'auth-config', keys);
    await change(ref, { owner: bob.email });
    await sees(bob, ref);
    const { body } = await until(
      () => bob.call('GET', `/projects/${id}`),
      (answer) => answer.body.webhook_secret !== 'webhook-secret-of-it',
    );
    assert.match(body.webhook_secret, /^[\w-]{43}$/);
    assert.equal([body.has_github_token, body.slack_webhook], [false, null]);
    assert.equal(Object.fromEntries(Object.keys(settings).map((name) => [name, body[name]])), settings);
    const { spec } = await projectOf(ref);
    assert.equal(spec.source, { repoUrl: settings.repo_url, productionBranch: 'main' });
    assert.equal(spec.notifications, { email: true });
    for (const name of ['project-git', 'project-notifications']) {
      const read = await api.operator.client.get<Secret>(`${secretsOf(ref)}/${name}`).catch(({ status }) => status);
      assert.is(read, 404, name);
    }
    if (type === 'shared') assert.equal(await secret(ref, 'auth-config'), { GOTRUE_SITE_URL: 'https://a.example' });
    const old = await api.call('POST', `/projects/${id}/deploy?token=webhook-secret-of-it`);
    assert.is(old.status, 401);
    if (type === 'shared') return;
    await reachesStep(ref, 0);
    assert.is(spec.rotation, undefined);
    await bob.call('PATCH', `/projects/${id}`, { github_token: 'ghp_bob' });
    await api.restart();
    assert.is((await bob.call('GET', `/projects/${id}`)).body.has_github_token, true, 'the transfer is over');
  });
}

test('a transfer requests a rotation with a number above all numbers that the Secrets record', async () => {
  const { bob, ref } = await projectOfAnn();
  await api.operator.provision(ref);
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', 1);
  await rotated(ref, 'project-database', 'rotation-database-passwords', 4);
  await api.operator.patch(ref, { spec: { owner: bob.email } });
  const { spec } = await until(
    () => projectOf(ref),
    (project) => project.spec.rotation?.jwtSecret !== undefined,
  );
  assert.equal([spec.rotation?.jwtSecret, spec.rotation?.databasePasswords], [5, 5]);
});

test('a transfer completes after the API was killed between its two rotations', async () => {
  const { bob, ref } = await projectOfAnn();
  await api.operator.provision(ref);
  await change(ref, { owner: bob.email });
  await reachesStep(ref, 2);
  await api.operator.patch(ref, { spec: { rotation: { jwtSecret: 2 } } });
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', 2);
  await rotated(ref, 'project-database', 'rotation-database-passwords', 1);
  await api.restart();
  await reachesStep(ref, 0);
});

test('a transfer requests its rotation again if someone removed the request from the spec', async () => {
  const { bob, ref } = await projectOfAnn();
  await api.operator.provision(ref);
  await change(ref, { owner: bob.email });
  await reachesStep(ref, 2);
  await api.operator.patch(ref, { spec: { rotation: null } });
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret === 1 && spec.rotation.databasePasswords === 1,
  );
});

test('a transfer ends sessions that switched roles, and retries while all connection slots are in use', async () => {
  const ann = await account();
  const bob = await account();
  const { ref } = (await ann.call('POST', '/projects', { name: 'slots-taken' })).body;
  await api.operator.provision(ref);
  const { host, port, user, password } = api.cluster.postgres.admin() as pg.ClientConfig;
  const admin = new pg.Client({ host, port, user, password, database: 'postgres' } as pg.ClientConfig);
  await admin.connect();
  const login = ownerRole(ref);
  const other = `${login}-other`;
  await admin.query(
    `create role "${other}"; grant "${other}" to "${login}"; alter role "${login}" set role = "${other}"`,
  );
  const open = new pg.Client({ host, port, user: login, password: 'owner', database: `p-${ref}` } as pg.ClientConfig);
  const ended = new Promise((resolve) => open.on('error', resolve));
  await open.connect();
  await admin.query(`alter role "${login}" connection limit 1`);
  await change(ref, { owner: bob.email });
  await reachesStep(ref, 2);
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', 1);
  await rotated(ref, 'project-database', 'rotation-database-passwords', 1);
  await api.restart();
  await reachesStep(ref, 3);
  assert.is((await projectOf(ref)).spec.rotation?.jwtSecret, 2, 'the second rotation does not wait');
  await admin.query(`alter role "${login}" connection limit 20`);
  await api.restart();
  await ended;
  await reachesStep(ref, 0);
  await admin.end();
});

test('a transfer rotates also after a time without an owner, unless the last owner gets the project back', async () => {
  const { ann, bob, ref } = await projectOfAnn();
  await api.operator.provision(ref);
  await change(ref, { owner: 'nobody-here@example.com' });
  await change(ref, { owner: ann.email });
  await sees(ann, ref);
  assert.is((await projectOf(ref)).spec.rotation, undefined);
  await change(ref, { owner: 'nobody-here@example.com' });
  await change(ref, { owner: bob.email });
  await sees(bob, ref);
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret === 1,
  );
});

test('an assignment by an administrator rotates credentials unless the project had no owner before', async () => {
  const root = await account();
  const ann = await account();
  const bob = await account();
  await onPlatform('update platform.users set is_administrator = email = $1', [root.email]);
  const ref = newRef();
  await api.operator.apply(ref, { owner: 'not-registered@example.com' });
  await until(
    () => eventsOf(ref),
    ({ length }) => length === 1,
  );
  const assign = (who: Person, email: string, to = ref) => who.call('POST', `/admin/projects/${to}/owner`, { email });
  const listed = await root.call('GET', '/admin/projects/unassigned');
  assert.ok(listed.body.some((project: object) => 'ref' in project && project.ref === ref));
  assert.is((await ann.call('GET', '/admin/projects/unassigned')).status, 403);
  assert.is((await assign(ann, ann.email)).status, 403);
  assert.is((await assign(root, 'not-registered@example.com')).status, 404);
  assert.is((await assign(root, ann.email, 'no-such-project')).status, 404);
  assert.equal((await assign(root, ann.email.toUpperCase())).body, { ok: true });
  await sees(ann, ref);
  const led = await until(
    () => projectOf(ref),
    ({ spec }) => spec.owner === ann.email,
  );
  assert.is(led.spec.rotation, undefined);
  await bob.call('POST', '/projects', { name: led.metadata.name });
  assert.equal((await assign(root, bob.email)).status, 409, 'a name that the account uses');
  const carol = await account();
  await assign(root, carol.email);
  await sees(carol, ref);
  const lost = async (who: Person) => (await who.call('GET', '/auth/me')).body.lost_projects;
  const [note, ...others] = await lost(ann);
  assert.equal([note.ref, note.cause, others], [ref, 'assigned', []]);
  assert.equal(await lost(carol), []);
  const reasons = (await eventsOf(ref)).map(({ reason }) => reason);
  assert.equal(reasons.toSorted(), ['OwnerChanged', 'OwnerUnknown']);
  // The new owner is visible a moment before the rotation.
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation !== undefined,
  );
  await reachesStep(ref, 2);
});

test('admin commands verify an address, reset a password, and assign a project', async () => {
  const ann = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: 'not-registered@example.com' });
  await settled(ref, 1);
  const run = async (...words: string[]) => {
    const platform = new pg.Client(api.cluster.postgres.admin('platform'));
    await platform.connect();
    return runCommand(words, platform).finally(() => platform.end());
  };
  assert.match(await run('unassigned'), new RegExp(`${ref}\tnot-registered@example.com`));
  await run('assign', ref, ann.email);
  await api.restart();
  await sees(ann, ref);
  assert.match(await run('verify', ann.email), /is verified/);
  const [, token] = /#reset=([\w-]+)$/.exec(await run('reset-password', ann.email)) ?? [];
  const reset = { token, password: 'given by an administrator' };
  assert.is((await api.call('POST', '/auth/password/reset', { json: reset })).status, 200);
  assert.is((await api.call('POST', '/auth/password/reset', { json: reset })).status, 400);
  assert.is(
    (await api.call('POST', '/auth/login', { json: { email: ann.email, password: reset.password } })).status,
    200,
  );
  for (const words of [
    ['assign', ref, 'nobody@example.com'],
    ['verify', 'nobody@example.com'],
    ['toString'],
    ['verify'],
  ])
    assert.instance(await run(...words).catch((error: unknown) => error), Error);
});

test.run();
