/** Ownership of a Project that kubectl applied or changed: by an account, decided once, by its id. */
import { setHeaderOptions } from '@kubernetes/client-node';
import { ownerRole } from '@slipway/crds';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { runCommand } from '../administration/commands.js';
import { type Answer, register, startTestApi, until } from '../testing.js';

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

async function onPlatform(sql: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const platform = new pg.Client(api.cluster.postgres.admin('platform'));
  await platform.connect();
  try {
    return (await platform.query(sql, values)).rows;
  } finally {
    await platform.end();
  }
}

const refsOf = async (person: Person) =>
  (await person.call('GET', '/projects')).body.map(({ ref }: { ref: string }) => ref);
const sees = (person: Person, ref: string) =>
  until(
    () => refsOf(person),
    (refs) => refs.includes(ref),
  );
const projectOf = (ref: string) => api.operator.get(ref);
/** The API has looked at this generation of the Project. */
const settled = (ref: string, generation: number) =>
  until(
    () => onPlatform('select seen_generation from platform.projects where ref = $1', [ref]),
    ([row]) => Number(row?.seen_generation) >= generation,
  );
async function change(ref: string, spec: object) {
  const { metadata } = await api.operator.patch(ref, { spec });
  await settled(ref, (metadata as { generation: number }).generation);
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
  // The project is older than the account by more than the clocks may differ.
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

test('data retained for an account is not inherited by another account', async () => {
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

test('a changed spec.owner moves the project to the other account, and ends the access of the former one', async () => {
  const ann = await account();
  const bob = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
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

test('a changed spec.name is the name that the owner can not use twice', async () => {
  const ann = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email, name: 'first-name' });
  await sees(ann, ref);
  await change(ref, { name: 'second-name' });
  const taken = await ann.call('POST', '/projects', { name: 'second-name' });
  assert.equal([taken.status, taken.body.code], [409, 'name_taken']);
  assert.is((await ann.call('POST', '/projects', { name: 'first-name' })).status, 201);
});

test('projects of a release that compared addresses keep the owner that spec.owner names', async () => {
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

test('an earlier row is settled when its owner was changed to an account with a project of that name', async () => {
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
  const { data = {} } = await api.operator.core.readNamespacedSecret({ namespace: `p-${ref}`, name });
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
};
/** Completes a rotation, as the operator does once every verifier accepts the next secret. */
async function rotated(ref: string, name: string, key: string, number: number | undefined) {
  const body = { data: { [key]: Buffer.from(String(number)).toString('base64') } };
  await api.operator.core.patchNamespacedSecret(
    { namespace: `p-${ref}`, name, body },
    setHeaderOptions('Content-Type', 'application/merge-patch+json'),
  );
}
const stepOf = async (ref: string) =>
  (await onPlatform('select rotation_step from platform.projects where ref = $1', [ref]))[0]?.rotation_step;

test('a transfer rotates every credential twice over, and ends sessions of the former owner in the database', async () => {
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
  const asked = await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret !== undefined,
  );
  const { jwtSecret, databasePasswords } = asked.spec.rotation ?? {};
  assert.equal([jwtSecret, databasePasswords, asked.spec.jwtSecretRef], [1, 1, undefined]);
  await until(
    () => secret(ref, 'project-keys'),
    (keys) => keys['webhook-secret'] !== before['webhook-secret'],
  );
  await api.restart();
  assert.is((await projectOf(ref)).spec.rotation?.jwtSecret, 1, 'the second waits for the first');
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', jwtSecret);
  await rotated(ref, 'project-database', 'rotation-database-passwords', databasePasswords);
  await api.restart();
  await ended;
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret === 2,
  );
  await until(
    () => stepOf(ref),
    (step) => step === 0,
  );
  await sees(bob, ref);
});

test('a transfer rotates past the numbers that only the Secrets record', async () => {
  const ann = await account();
  const bob = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
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

test('a transfer ends when the API was killed after it asked for the second rotation', async () => {
  const ann = await account();
  const bob = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
  await api.operator.provision(ref);
  await change(ref, { owner: bob.email });
  await until(
    () => stepOf(ref),
    (step) => step === 2,
  );
  await api.operator.patch(ref, { spec: { rotation: { jwtSecret: 2 } } });
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', 2);
  await rotated(ref, 'project-database', 'rotation-database-passwords', 1);
  await api.restart();
  await until(
    () => stepOf(ref),
    (step) => step === 0,
  );
});

test('a transfer asks again for a rotation that was removed from the spec', async () => {
  const ann = await account();
  const bob = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
  await api.operator.provision(ref);
  await change(ref, { owner: bob.email });
  await until(
    () => stepOf(ref),
    (step) => step === 2,
  );
  await api.operator.patch(ref, { spec: { rotation: null } });
  await until(
    () => projectOf(ref),
    ({ spec }) => spec.rotation?.jwtSecret === 1 && spec.rotation.databasePasswords === 1,
  );
});

test('a transfer ends sessions of a login that becomes another role, and tries again while its slots are taken', async () => {
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
  await until(
    () => stepOf(ref),
    (step) => step === 2,
  );
  await rotated(ref, 'project-keys', 'rotation-jwt-secret', 1);
  await rotated(ref, 'project-database', 'rotation-database-passwords', 1);
  await api.restart();
  await until(
    () => stepOf(ref),
    (step) => step === 3,
  );
  assert.is((await projectOf(ref)).spec.rotation?.jwtSecret, 2, 'the second rotation does not wait');
  await admin.query(`alter role "${login}" connection limit 20`);
  await api.restart();
  await ended;
  await until(
    () => stepOf(ref),
    (step) => step === 0,
  );
  await admin.end();
});

test('a transfer by way of nobody rotates too, and a return to the last owner does not', async () => {
  const ann = await account();
  const bob = await account();
  const ref = newRef();
  await api.operator.apply(ref, { owner: ann.email });
  await sees(ann, ref);
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

test('an administrator assigns a project: the first owner rotates nothing, a further one does', async () => {
  const root = await account();
  const ann = await account();
  const bob = await account();
  await onPlatform('update platform.users set is_administrator = email = $1', [root.email]);
  const ref = newRef();
  await api.operator.apply(ref, { owner: 'not-registered@example.com' });
  await settled(ref, 1);
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
  assert.is(await stepOf(ref), 1 + Number((await projectOf(ref)).spec.rotation !== undefined));
});

test('commands on the server verify an address, reset a password, and assign a project', async () => {
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
