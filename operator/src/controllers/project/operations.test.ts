/** What an admin does to a Project that is there: credentials rotated, suspended, its data retained; and what drifts. */
import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { LABEL_PROJECT, SECRETS } from '@slipway/crds';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { KubeObject } from '../../runtime/kube.js';
import { adminUrl, until } from '../../testing.js';
import {
  change,
  condition,
  create,
  eventsOf,
  get,
  hasReason,
  isHealthy,
  loginWorks,
  putSecret,
  reaches,
  remove,
  run,
  secretOf,
  startTestOperator,
  type World,
  withOperator,
} from './operator.testing.js';
import { namespacePath, plainText, type Secret, secretData, secretsPath } from './resources.js';
import { COPIES, copyName } from './secret-copies.js';

const test = suite<World>('operations on a Project');
withOperator(test);

const { keys: keyNames, database: databaseNames } = SECRETS;
const keysOf = (world: World, ref: string) => secretOf(world, ref, keyNames.name);
const loginOf = (world: World, ref: string) => secretOf(world, ref, databaseNames.name);
const signs = (secret: string | undefined, token: string) => {
  const [header, claims, signature] = token.split('.');
  return (
    createHmac('sha256', secret ?? '')
      .update(`${header}.${claims}`)
      .digest('base64url') === signature
  );
};
const isRotating = ({ status }: Parameters<typeof isHealthy>[0]) =>
  status?.conditions?.some(({ type, reason }) => type === 'CredentialsCurrent' && reason === 'Rotating') ?? false;

/** A data plane that takes tokens of `secrets` alone. */
const takes = (secrets: () => (string | undefined)[]) => (request: IncomingMessage) =>
  secrets().some((secret) => signs(secret, String(request.headers.apikey))) ? 200 : 401;

async function query(url: string | undefined, sql: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test('a JWT secret signs only when all that verify tokens take it; until then nothing that is shown changes', async (world) => {
  const ref = await create(world, 'jwt');
  await reaches(world, ref, isHealthy, 'healthy');
  const before = await keysOf(world, ref);
  const secret = before[keyNames.jwtSecret];
  let known: (string | undefined)[] = [secret];
  world.answer.to = takes(() => known);
  await change(world, ref, { rotation: { jwtSecret: 1 } });
  const waiting = await reaches(world, ref, isRotating, 'rotating');
  assert.is(waiting.status?.phase, 'healthy');
  const during = await keysOf(world, ref);
  assert.ok(during[keyNames.nextJwtSecret]);
  assert.equal([during[keyNames.jwtSecret], during[keyNames.anonKey]], [secret, before[keyNames.anonKey]]);
  known = [secret, during[keyNames.nextJwtSecret]];
  await reaches(world, ref, (project) => condition(project, 'CredentialsCurrent')?.status === 'True', 'rotated');
  const after = await keysOf(world, ref);
  assert.is(after[keyNames.jwtSecret], during[keyNames.nextJwtSecret]);
  assert.is(after[keyNames.previousJwtSecret], secret);
  assert.is(after[keyNames.nextJwtSecret], undefined);
  assert.ok(signs(after[keyNames.jwtSecret], after[keyNames.serviceRoleKey] as string));
  world.answer.to = undefined;
  await until(async () => (await eventsOf(world, ref)).some(({ reason }) => reason === 'Rotated'), 'the Event');
});

test('a rotation that its operator did not finish is finished by the next', async (world) => {
  const ref = await create(world, 'handed-on');
  await reaches(world, ref, isHealthy, 'healthy');
  const { [keyNames.jwtSecret]: secret } = await keysOf(world, ref);
  world.answer.to = takes(() => [secret]);
  await change(world, ref, { rotation: { jwtSecret: 1 } });
  await reaches(world, ref, isRotating, 'rotating');
  const { [keyNames.nextJwtSecret]: next } = await keysOf(world, ref);
  await world.operator.close();
  world.answer.to = undefined;
  world.operator = await startTestOperator(world);
  await until(async () => (await keysOf(world, ref))[keyNames.jwtSecret] === next, 'the next secret to sign');
});

test('rotated API keys are others of the same secret, made once', async (world) => {
  const ref = await create(world, 'api-keys');
  await reaches(world, ref, isHealthy, 'healthy');
  const before = await keysOf(world, ref);
  await change(world, ref, { rotation: { apiKeys: 7 } });
  const after = await until(async () => {
    const keys = await keysOf(world, ref);
    return keys[keyNames.anonKey] === before[keyNames.anonKey] ? undefined : keys;
  }, 'other keys');
  assert.is(after[keyNames.jwtSecret], before[keyNames.jwtSecret]);
  assert.ok(signs(after[keyNames.jwtSecret], after[keyNames.anonKey] as string));
  assert.is.not(after[keyNames.serviceRoleKey], before[keyNames.serviceRoleKey]);
  await change(world, ref, { plan: 'starter' });
  await reaches(world, ref, ({ metadata, status }) => status?.observedGeneration === metadata.generation, 'looked at');
  assert.equal(await keysOf(world, ref), after);
});

test('rotated passwords open the database from when they are shown, those before do not, and who is in it stays in', async (world) => {
  const ref = await create(world, 'passwords');
  await reaches(world, ref, isHealthy, 'healthy');
  const before = await loginOf(world, ref);
  const inside = new pg.Client({ connectionString: before[databaseNames.url] });
  await inside.connect();
  await change(world, ref, { rotation: { databasePasswords: 1 } });
  const after = await until(async () => {
    const login = await loginOf(world, ref);
    return login[databaseNames.url] === before[databaseNames.url] ? undefined : login;
  }, 'another URL');
  assert.ok(await loginWorks(after[databaseNames.url] as string), 'at once, as it is shown');
  assert.not(await loginWorks(before[databaseNames.url] as string));
  assert.equal((await inside.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
  await inside.end();
  for (const key of [databaseNames.authenticatorPassword, databaseNames.authAdminPassword]) {
    assert.is.not(after[key], before[key]);
  }
  assert.is(after[databaseNames.nextOwnerPassword], undefined);
  assert.is(after[databaseNames.passwordsRotation], '1');
  const project = await reaches(world, ref, isHealthy, 'healthy');
  assert.is(condition(project, 'DatabaseReady')?.reason, 'Ready', 'what was asked for is no drift');
});

test('passwords that were begun for an earlier number are not taken for those of the number asked for since', async (world) => {
  const ref = await create(world, 'passwords-twice');
  await reaches(world, ref, isHealthy, 'healthy');
  await change(world, ref, { rotation: { databasePasswords: 2 } });
  const isOf2 = (login: Record<string, string>) => login[databaseNames.passwordsRotation] === '2';
  await until(async () => isOf2(await loginOf(world, ref)), 'the number recorded');
  const begun = {
    [databaseNames.nextOwnerPassword]: 'begun-and-leaked',
    [databaseNames.nextAuthenticatorPassword]: 'begun-and-leaked-too',
    [databaseNames.nextAuthAdminPassword]: 'begun-and-leaked-as-well',
    [databaseNames.nextPasswordsRotation]: '1',
  };
  const path = `${secretsPath(ref)}/${databaseNames.name}`;
  const { metadata } = await world.kubernetes.client.patch<KubeObject>(path, { data: secretData(begun) });
  const login = await until(async () => {
    const secret = await world.kubernetes.client.get<Secret>(path);
    const held = plainText(secret);
    const isDone = isOf2(held) && held[databaseNames.nextOwnerPassword] === undefined;
    return secret.metadata.resourceVersion !== metadata.resourceVersion && isDone ? held : undefined;
  }, 'both rotations done');
  assert.is.not(login[databaseNames.ownerPassword], begun[databaseNames.nextOwnerPassword]);
  assert.ok(await loginWorks(login[databaseNames.url] as string));
});

test('a Secret that the API server lets nobody change is told in its words, and when it is gone the rotation comes to its end', async (world) => {
  const cases = [
    { name: databaseNames.name, tells: 'DatabaseReady', rotation: { databasePasswords: 1 } },
    { name: keyNames.name, tells: 'KeysReady', rotation: { apiKeys: 1 } },
  ];
  const ref = await create(world, 'immutable');
  await reaches(world, ref, isHealthy, 'healthy');
  for (const { name, tells, rotation } of cases) {
    const path = `${secretsPath(ref)}/${name}`;
    const secret = await world.kubernetes.client.patch<Secret>(path, { immutable: true });
    await change(world, ref, { rotation });
    const isRefused = (project: Parameters<typeof isHealthy>[0]) => condition(project, tells)?.status === 'False';
    const { status } = await reaches(world, ref, isRefused, `${tells} to be False`);
    const { reason, message } = status?.conditions?.find(({ type }) => type === tells) ?? {};
    assert.is(reason, 'Invalid');
    assert.match(message ?? '', `Secret "${name}" is invalid: field is immutable`);
    for (const value of Object.values(plainText(secret))) assert.not(message?.includes(value), 'nothing of the Secret');
    assert.is(status?.phase, 'error');
    await world.kubernetes.client.delete(path);
    await reaches(world, ref, (project) => isHealthy(project) && !isRefused(project), 'healthy again');
  }
  const login = await loginOf(world, ref);
  assert.is(login[databaseNames.passwordsRotation], '1');
  assert.ok(await loginWorks(login[databaseNames.url] as string));
  assert.is((await keysOf(world, ref))[keyNames.apiKeysRotation], '1');
});

test('a suspended project says so, lets nobody into its database, and comes back with its data', async (world) => {
  const ref = await create(world, 'suspended');
  await reaches(world, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: url } = await loginOf(world, ref);
  await query(url, 'CREATE TABLE kept AS SELECT 7 AS id');
  await change(world, ref, { suspend: true });
  const { status } = await reaches(world, ref, hasReason('Suspended'), 'suspended');
  assert.is(status?.phase, 'suspended');
  assert.ok(Object.values(status?.services ?? {}).every(({ up, status }) => !up && status === 'suspended'));
  assert.not(await loginWorks(url as string));
  await change(world, ref, { suspend: false });
  const resumed = await reaches(world, ref, isHealthy, 'healthy again');
  assert.ok(resumed.status?.services?.database?.up);
  assert.is(condition(resumed, 'DatabaseReady')?.reason, 'Ready', 'what was asked for is no drift');
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 7 }]);
});

test('data that is retained is refused to another owner, outlives their project, and is its own owner’s again', async (world) => {
  const ref = await create(world, 'kept', { deletionPolicy: 'Retain' });
  await reaches(world, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: before } = await loginOf(world, ref);
  await query(before, 'CREATE TABLE kept AS SELECT 7 AS id');
  await remove(world, ref);
  await create(world, 'kept', { owner: 'another@example.com' });
  const refused = await reaches(world, ref, hasReason('DatabaseRetained'), 'refused');
  assert.match(refused.status?.message ?? '', /choose another metadata.name/);
  await remove(world, ref);
  await create(world, 'kept', { deletionPolicy: 'Delete' });
  await reaches(world, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: url } = await loginOf(world, ref);
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 7 }]);
  await remove(world, ref);
  await create(world, 'kept');
  await reaches(world, ref, isHealthy, 'healthy, made anew');
  const { [databaseNames.url]: anew } = await loginOf(world, ref);
  assert.is(await query(anew, 'SELECT id FROM kept').catch((error) => error.code), '42P01');
});

test('while its data is to be retained nobody owns the namespace: a deletion in the foreground asks nobody before it takes what is owned', async (world) => {
  const ref = await create(world, 'unowned', { deletionPolicy: 'Retain' });
  await reaches(world, ref, isHealthy, 'healthy');
  const owners = async () =>
    (await world.kubernetes.client.get<KubeObject>(namespacePath(ref))).metadata.ownerReferences?.length ?? 0;
  assert.is(await owners(), 0);
  await change(world, ref, { deletionPolicy: 'Delete' });
  await until(async () => (await owners()) === 1, 'an owner');
  await change(world, ref, { deletionPolicy: 'Retain' });
  await until(async () => (await owners()) === 0, 'no owner');
});

const drifts: Record<string, { condition: string; told: RegExp; cause(world: World, ref: string): Promise<unknown> }> =
  {
    'a Secret that was deleted': {
      condition: 'DatabaseReady',
      told: /^put back: Secret project-database, which was deleted/,
      cause: ({ kubernetes }, ref) => kubernetes.client.delete(`${secretsPath(ref)}/${databaseNames.name}`),
    },
    'a Secret that was edited': {
      condition: 'KeysReady',
      told: /^put back: Secret project-keys, which was edited$/,
      cause: ({ kubernetes }, ref) =>
        kubernetes.client.patch(`${secretsPath(ref)}/${keyNames.name}`, { data: { [keyNames.anonKey]: 'eA==' } }),
    },
  };
for (const [what, drift] of Object.entries(drifts)) {
  test(`${what} is put back, and the status and an Event say so, and go on saying so`, async (world) => {
    const ref = await create(world, drift.condition.toLowerCase());
    await reaches(world, ref, isHealthy, 'healthy');
    await drift.cause(world, ref);
    const isTold = (project: Parameters<typeof isHealthy>[0]) =>
      condition(project, drift.condition)?.reason === 'Restored';
    const told = await reaches(world, ref, isTold, 'restored');
    assert.match(condition(told, drift.condition)?.message ?? '', drift.told);
    await until(async () => (await eventsOf(world, ref)).some(({ reason }) => reason === 'Drifted'), 'the Event');
    const { metadata } = await world.kubernetes.client.patch<typeof told>(
      `/apis/slipway.dev/v1alpha1/projects/${ref}`,
      {
        metadata: { annotations: { look: 'again' } },
      },
    );
    const later = await create(world, `after-${drift.condition.toLowerCase()}`);
    await reaches(world, later, isHealthy, 'healthy');
    assert.is((await get(world, ref)).metadata.resourceVersion, metadata.resourceVersion, 'written once');
  });
}

/** What the operator of an earlier release left of a project: passwords in the Secret and no id, so that the names come from the ref. */
async function ofAnEarlierRelease(world: World, ref: string): Promise<void> {
  const [metadata, passwords] = [{ name: `p-${ref}`, labels: { [LABEL_PROJECT]: ref } }, ['a', 'b', 'c']];
  await world.kubernetes.client.create<object>('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  const { ownerPassword, authenticatorPassword, authAdminPassword } = databaseNames;
  const values = [ownerPassword, authenticatorPassword, authAdminPassword].map((key, at) => [
    key,
    `legacy-${passwords[at]}`,
  ]);
  await putSecret(world, ref, databaseNames.name, Object.fromEntries(values), { [LABEL_PROJECT]: ref });
}

test('a project of an earlier release keeps the names that come from its ref: rotated, suspended, retained and removed', async (world) => {
  const ref = `${run}-legacy`;
  await ofAnEarlierRelease(world, ref);
  await create(world, 'legacy', { deletionPolicy: 'Retain' });
  await reaches(world, ref, isHealthy, 'healthy');
  const forget = `DELETE FROM slipway.databases WHERE ref = '${ref}'`;
  await query(adminUrl(world.postgres), forget);
  const before = await loginOf(world, ref);
  assert.match(
    before[databaseNames.url] as string,
    new RegExp(`^postgresql://postgres\\.${ref}:legacy-a@.*/p-${ref}$`),
  );
  assert.is(before[databaseNames.id], undefined);
  await query(before[databaseNames.url], 'CREATE TABLE kept AS SELECT 9 AS id');
  await change(world, ref, { rotation: { databasePasswords: 1 } });
  const rotated = await until(async () => {
    const login = await loginOf(world, ref);
    return login[databaseNames.url] === before[databaseNames.url] ? undefined : login;
  }, 'another URL');
  assert.match(rotated[databaseNames.url] as string, new RegExp(`^postgresql://postgres\\.${ref}:`));
  assert.ok(await loginWorks(rotated[databaseNames.url] as string));
  await change(world, ref, { suspend: true });
  await reaches(world, ref, ({ status }) => status?.phase === 'suspended', 'suspended');
  assert.not(await loginWorks(rotated[databaseNames.url] as string));
  await change(world, ref, { suspend: false });
  await reaches(world, ref, isHealthy, 'healthy again');
  await remove(world, ref);
  assert.not(await loginWorks(rotated[databaseNames.url] as string));
  await create(world, 'legacy', {});
  await reaches(world, ref, isHealthy, 'healthy with its data');
  const { [databaseNames.url]: url } = await loginOf(world, ref);
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 9 }]);
  await remove(world, ref);
  const left = `SELECT datname FROM pg_database WHERE datname = 'p-${ref}' UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE '%.${ref}'`;
  assert.equal(await query(adminUrl(world.postgres), left), []);
});

test('a new project has names of a random id, in a Secret that a repair leaves with the same id', async (world) => {
  const ref = await create(world, 'opaque-telling');
  await reaches(world, ref, isHealthy, 'healthy');
  const before = await loginOf(world, ref);
  const id = before[databaseNames.id] as string;
  assert.match(id, /^db_[a-z]{20}$/);
  assert.match(before[databaseNames.url] as string, new RegExp(`^postgresql://postgres\\.${id}:.*/p-${id}$`));
  await query(before[databaseNames.url], 'CREATE TABLE kept AS SELECT 5 AS id');
  await putSecret(world, ref, databaseNames.name, { [databaseNames.id]: 'db_another' });
  await until(async () => (await loginOf(world, ref))[databaseNames.id] === id, 'the id again');
  await world.kubernetes.client.delete(`${secretsPath(ref)}/${databaseNames.name}`);
  const after = await until(() => loginOf(world, ref).catch(() => undefined), 'the Secret to be there again');
  assert.is(after[databaseNames.id], id);
  await until(() => loginWorks(after[databaseNames.url] as string), 'the new password to work');
  assert.equal(await query(after[databaseNames.url], 'SELECT id FROM kept'), [{ id: 5 }]);
});

test('a project whose namespace is deleted comes back with its keys, variables and Git token', async (world) => {
  const { client } = world.kubernetes;
  const ref = await create(world, 'namespace-deleted');
  await reaches(world, ref, isHealthy, 'healthy');
  const before = await keysOf(world, ref);
  const labels = { [LABEL_PROJECT]: ref };
  await putSecret(world, ref, SECRETS.env.name, { GREETING: 'hello', OLD: 'x' }, labels);
  await putSecret(world, ref, SECRETS.git.name, { [SECRETS.git.token]: 'sealed' }, labels);
  await change(world, ref, {
    env: { secretRef: { name: SECRETS.env.name } },
    source: { tokenSecretRef: { name: SECRETS.git.name, key: SECRETS.git.token } },
  });
  const copyOf = (name: string) => client.get<Secret>(`${COPIES}/${copyName(name, ref)}`).catch(() => undefined);
  const copied = (name: string, values: object) =>
    until(async () => isDeepStrictEqual(plainText(await copyOf(name)), values) || undefined, `the copy of ${name}`);
  await copied(SECRETS.env.name, { GREETING: 'hello', OLD: 'x' });
  await client.patch(`${secretsPath(ref)}/${SECRETS.env.name}`, {
    data: { ...secretData({ GREETING: 'new' }), OLD: null },
  });
  await copied(SECRETS.env.name, { GREETING: 'new' });
  await copied(SECRETS.git.name, { [SECRETS.git.token]: 'sealed' });
  await copied(keyNames.name, before);
  assert.is((await copyOf(keyNames.name))?.metadata.labels?.[LABEL_PROJECT], undefined);

  const { uid } = (await client.get<KubeObject>(namespacePath(ref))).metadata;
  await client.delete(namespacePath(ref));
  await until(async () => {
    const namespace = await client.get<KubeObject>(namespacePath(ref)).catch(() => undefined);
    return namespace && namespace.metadata.uid !== uid ? namespace : undefined;
  }, 'another namespace');
  const again = (name: string) => until(() => secretOf(world, ref, name).catch(() => undefined), `${name} again`);
  assert.equal(await again(keyNames.name), before);
  assert.equal(await again(SECRETS.env.name), { GREETING: 'new' });
  assert.equal(await again(SECRETS.git.name), { [SECRETS.git.token]: 'sealed' });
  await reaches(world, ref, isHealthy, 'healthy again');

  await change(world, ref, { env: null });
  await client.delete(`${secretsPath(ref)}/${SECRETS.env.name}`);
  await until(async () => (await copyOf(SECRETS.env.name)) === undefined || undefined, 'the copy of env to be dropped');
  const missing = await client.get(`${secretsPath(ref)}/${SECRETS.env.name}`).catch(({ status }) => ({ status }));
  assert.equal(missing, { status: 404 }, 'variables that the Project names no more are not restored');

  await remove(world, ref);
  for (const name of [keyNames.name, SECRETS.git.name])
    await until(async () => (await copyOf(name)) === undefined || undefined, `the copy of ${name} to be collected`);
});

test('the copy of an earlier project of the same name is not restored', async (world) => {
  const { client } = world.kubernetes;
  const ref = `${run}-copied-before`;
  // As a deletion with `--cascade=orphan` leaves it: no owner, so garbage collection does not delete it.
  const metadata = { name: copyName(keyNames.name, ref) };
  const data = secretData({ [keyNames.jwtSecret]: 'of-another-owner' });
  await client.create<object>(COPIES, { apiVersion: 'v1', kind: 'Secret', metadata, data });
  await create(world, 'copied-before');
  await reaches(world, ref, isHealthy, 'healthy');
  const keys = await keysOf(world, ref);
  assert.is.not(keys[keyNames.jwtSecret], 'of-another-owner');
  const copy = () => client.get<Secret>(`${COPIES}/${copyName(keyNames.name, ref)}`).catch(() => undefined);
  await until(
    async () => isDeepStrictEqual(plainText(await copy()), keys) || undefined,
    'the copy to be this project’s',
  );
});

test.run();
