/**
 * Tests an administrator's operations on a Project (rotated credentials, suspension, retained data), and the repair of
 * drift.
 */

import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { LABEL_PROJECT, SECRETS } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl } from '../../testing.js';
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
  type ReconcilerDeps,
  reaches,
  remove,
  run,
  secretOf,
  startTestOperator,
  withOperator,
  written,
} from './operator.testing.js';
import { namespacePath, plainText, type Secret, secretData, secretsPath } from './resources.js';
import { COPIES, copyName } from './secret-copies.js';

const test = suite<ReconcilerDeps>('operations on a Project');
withOperator(test);

const { keys: keyNames, database: databaseNames } = SECRETS;
const keysOf = (deps: ReconcilerDeps, ref: string) => secretOf(deps, ref, keyNames.name);
const loginOf = (deps: ReconcilerDeps, ref: string) => secretOf(deps, ref, databaseNames.name);
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

/** Returns a data plane that accepts only tokens of `secrets`. */
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

test('a new JWT secret signs only when all verifiers accept it, and until then all shown values stay', async (deps) => {
  const ref = await create(deps, 'jwt');
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await keysOf(deps, ref);
  const secret = before[keyNames.jwtSecret];
  let known: (string | undefined)[] = [secret];
  deps.answer.to = takes(() => known);
  await change(deps, ref, { rotation: { jwtSecret: 1 } });
  const waiting = await reaches(deps, ref, isRotating, 'rotating');
  assert.is(waiting.status?.phase, 'healthy');
  const during = await keysOf(deps, ref);
  assert.ok(during[keyNames.nextJwtSecret]);
  assert.equal([during[keyNames.jwtSecret], during[keyNames.anonKey]], [secret, before[keyNames.anonKey]]);
  known = [secret, during[keyNames.nextJwtSecret]];
  await reaches(deps, ref, (project) => condition(project, 'CredentialsCurrent')?.status === 'True', 'rotated');
  const after = await keysOf(deps, ref);
  assert.is(after[keyNames.jwtSecret], during[keyNames.nextJwtSecret]);
  assert.is(after[keyNames.previousJwtSecret], secret);
  assert.is(after[keyNames.nextJwtSecret], undefined);
  assert.ok(signs(after[keyNames.jwtSecret], after[keyNames.serviceRoleKey] as string));
  deps.answer.to = undefined;
  await until(async () => (await eventsOf(deps, ref)).some(({ reason }) => reason === 'Rotated'), 'the Event');
});

test('a rotation is finished by the next operator when the former operator was killed', async (deps) => {
  const ref = await create(deps, 'handed-on');
  await reaches(deps, ref, isHealthy, 'healthy');
  const { [keyNames.jwtSecret]: secret } = await keysOf(deps, ref);
  deps.answer.to = takes(() => [secret]);
  await change(deps, ref, { rotation: { jwtSecret: 1 } });
  await reaches(deps, ref, isRotating, 'rotating');
  const { [keyNames.nextJwtSecret]: next } = await keysOf(deps, ref);
  await deps.operator.close();
  deps.answer.to = undefined;
  deps.operator = await startTestOperator(deps);
  await until(async () => (await keysOf(deps, ref))[keyNames.jwtSecret] === next, 'the next secret to sign');
});

test('rotated API keys differ under the same secret, and are made only once', async (deps) => {
  const ref = await create(deps, 'api-keys');
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await keysOf(deps, ref);
  await change(deps, ref, { rotation: { apiKeys: 7 } });
  const after = await until(async () => {
    const keys = await keysOf(deps, ref);
    return keys[keyNames.anonKey] === before[keyNames.anonKey] ? undefined : keys;
  }, 'other keys');
  assert.is(after[keyNames.jwtSecret], before[keyNames.jwtSecret]);
  assert.ok(signs(after[keyNames.jwtSecret], after[keyNames.anonKey] as string));
  assert.is.not(after[keyNames.serviceRoleKey], before[keyNames.serviceRoleKey]);
  await change(deps, ref, { plan: 'starter' });
  await reaches(deps, ref, ({ metadata, status }) => status?.observedGeneration === metadata.generation, 'looked at');
  assert.equal(await keysOf(deps, ref), after);
});

test('rotated passwords work once they are shown, former passwords do not, and sessions stay', async (deps) => {
  const ref = await create(deps, 'passwords');
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await loginOf(deps, ref);
  const inside = new pg.Client({ connectionString: before[databaseNames.url] });
  await inside.connect();
  await change(deps, ref, { rotation: { databasePasswords: 1 } });
  const after = await until(async () => {
    const login = await loginOf(deps, ref);
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
  const project = await reaches(deps, ref, isHealthy, 'healthy');
  assert.is(condition(project, 'DatabaseReady')?.reason, 'Ready', 'a requested change is no drift');
});

test('passwords made for an earlier rotation number do not count for a later number', async (deps) => {
  const ref = await create(deps, 'passwords-twice');
  await reaches(deps, ref, isHealthy, 'healthy');
  await change(deps, ref, { rotation: { databasePasswords: 2 } });
  const isOf2 = (login: Record<string, string>) => login[databaseNames.passwordsRotation] === '2';
  await until(async () => isOf2(await loginOf(deps, ref)), 'the number recorded');
  const begun = {
    [databaseNames.nextOwnerPassword]: 'begun-and-leaked',
    [databaseNames.nextAuthenticatorPassword]: 'begun-and-leaked-too',
    [databaseNames.nextAuthAdminPassword]: 'begun-and-leaked-as-well',
    [databaseNames.nextPasswordsRotation]: '1',
  };
  const path = `${secretsPath(ref)}/${databaseNames.name}`;
  const { metadata } = await deps.kubernetes.client.patch<KubeObject>(path, { data: secretData(begun) });
  const login = await until(async () => {
    const secret = await deps.kubernetes.client.get<Secret>(path);
    const stored = plainText(secret);
    const isDone = isOf2(stored) && stored[databaseNames.nextOwnerPassword] === undefined;
    return secret.metadata.resourceVersion !== metadata.resourceVersion && isDone ? stored : undefined;
  }, 'both rotations done');
  assert.is.not(login[databaseNames.ownerPassword], begun[databaseNames.nextOwnerPassword]);
  assert.ok(await loginWorks(login[databaseNames.url] as string));
});

test('a project with an immutable Secret reports the API server’s error until the Secret is deleted', async (deps) => {
  const cases = [
    { name: databaseNames.name, tells: 'DatabaseReady', rotation: { databasePasswords: 1 } },
    { name: keyNames.name, tells: 'KeysReady', rotation: { apiKeys: 1 } },
  ];
  const ref = await create(deps, 'immutable');
  await reaches(deps, ref, isHealthy, 'healthy');
  for (const { name, tells, rotation } of cases) {
    const path = `${secretsPath(ref)}/${name}`;
    const secret = await deps.kubernetes.client.patch<Secret>(path, { immutable: true });
    await change(deps, ref, { rotation });
    const isRefused = (project: Parameters<typeof isHealthy>[0]) => condition(project, tells)?.status === 'False';
    const { status } = await reaches(deps, ref, isRefused, `${tells} to be False`);
    const { reason, message } = status?.conditions?.find(({ type }) => type === tells) ?? {};
    assert.is(reason, 'Invalid');
    assert.match(message ?? '', `Secret "${name}" is invalid: field is immutable`);
    for (const value of Object.values(plainText(secret))) assert.not(message?.includes(value), 'nothing of the Secret');
    assert.is(status?.phase, 'error');
    await deps.kubernetes.client.delete(path);
    await reaches(deps, ref, (project) => isHealthy(project) && !isRefused(project), 'healthy again');
  }
  const login = await loginOf(deps, ref);
  assert.is(login[databaseNames.passwordsRotation], '1');
  assert.ok(await loginWorks(login[databaseNames.url] as string));
  assert.is((await keysOf(deps, ref))[keyNames.apiKeysRotation], '1');
});

test('a suspended project reports that, rejects database connections, and resumes with its data', async (deps) => {
  const ref = await create(deps, 'suspended');
  await reaches(deps, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: url } = await loginOf(deps, ref);
  await query(url, 'CREATE TABLE kept AS SELECT 7 AS id');
  await change(deps, ref, { suspend: true });
  const { status } = await reaches(deps, ref, hasReason('Suspended'), 'suspended');
  assert.is(status?.phase, 'suspended');
  assert.ok(Object.values(status?.services ?? {}).every(({ up, status }) => !up && status === 'suspended'));
  assert.not(await loginWorks(url as string));
  await change(deps, ref, { suspend: false });
  const resumed = await reaches(deps, ref, isHealthy, 'healthy again');
  assert.ok(resumed.status?.services?.database?.up);
  assert.is(condition(resumed, 'DatabaseReady')?.reason, 'Ready', 'a requested change is no drift');
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 7 }]);
});

test('a project of another owner does not get retained data, and a project of its own owner does', async (deps) => {
  const ref = await create(deps, 'kept', { deletionPolicy: 'Retain' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: before } = await loginOf(deps, ref);
  await query(before, 'CREATE TABLE kept AS SELECT 7 AS id');
  await remove(deps, ref);
  await create(deps, 'kept', { owner: 'another@example.com' });
  const refused = await reaches(deps, ref, hasReason('DatabaseRetained'), 'refused');
  assert.match(refused.status?.message ?? '', /choose another metadata.name/);
  await remove(deps, ref);
  await create(deps, 'kept', { deletionPolicy: 'Delete' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const { [databaseNames.url]: url } = await loginOf(deps, ref);
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 7 }]);
  await remove(deps, ref);
  await create(deps, 'kept');
  await reaches(deps, ref, isHealthy, 'healthy, made anew');
  const { [databaseNames.url]: anew } = await loginOf(deps, ref);
  assert.is(await query(anew, 'SELECT id FROM kept').catch((error) => error.code), '42P01');
});

test('a namespace with data to retain has no owner, so that a foreground deletion does not delete it', async (deps) => {
  const ref = await create(deps, 'unowned', { deletionPolicy: 'Retain' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const owners = async () =>
    (await deps.kubernetes.client.get<KubeObject>(namespacePath(ref))).metadata.ownerReferences?.length ?? 0;
  assert.is(await owners(), 0);
  await change(deps, ref, { deletionPolicy: 'Delete' });
  await until(async () => (await owners()) === 1, 'an owner');
  await change(deps, ref, { deletionPolicy: 'Retain' });
  await until(async () => (await owners()) === 0, 'no owner');
});

const drifts: Record<
  string,
  { condition: string; told: RegExp; cause(deps: ReconcilerDeps, ref: string): Promise<unknown> }
> = {
  'a deleted Secret': {
    condition: 'DatabaseReady',
    told: /^put back: Secret project-database, which was deleted/,
    cause: ({ kubernetes }, ref) => kubernetes.client.delete(`${secretsPath(ref)}/${databaseNames.name}`),
  },
  'an edited Secret': {
    condition: 'KeysReady',
    told: /^put back: Secret project-keys, which was edited$/,
    cause: ({ kubernetes }, ref) =>
      kubernetes.client.patch(`${secretsPath(ref)}/${keyNames.name}`, { data: { [keyNames.anonKey]: 'eA==' } }),
  },
};
for (const [what, drift] of Object.entries(drifts)) {
  test(`${what} is repaired, and the status and an Event report it until the next change`, async (deps) => {
    const ref = await create(deps, drift.condition.toLowerCase());
    await reaches(deps, ref, isHealthy, 'healthy');
    await drift.cause(deps, ref);
    const isTold = (project: Parameters<typeof isHealthy>[0]) =>
      condition(project, drift.condition)?.reason === 'Restored';
    const told = await reaches(deps, ref, isTold, 'restored');
    assert.match(condition(told, drift.condition)?.message ?? '', drift.told);
    await until(async () => (await eventsOf(deps, ref)).some(({ reason }) => reason === 'Drifted'), 'the Event');
    const before = await deps.kubernetes.client.patch<typeof told>(`/apis/slipway.dev/v1alpha1/projects/${ref}`, {
      metadata: { annotations: { look: 'again' } },
    });
    const later = await create(deps, `after-${drift.condition.toLowerCase()}`);
    await reaches(deps, later, isHealthy, 'healthy');
    assert.equal(written(await get(deps, ref)), written(before), 'written once');
  });
}

/**
 * Leaves a project as the operator of an earlier release did: the Secret has passwords and no id, so the names contain
 * the ref.
 */
async function ofAnEarlierRelease(deps: ReconcilerDeps, ref: string): Promise<void> {
  const [metadata, passwords] = [{ name: `p-${ref}`, labels: { [LABEL_PROJECT]: ref } }, ['a', 'b', 'c']];
  await deps.kubernetes.client.create<object>('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  const { ownerPassword, authenticatorPassword, authAdminPassword } = databaseNames;
  const values = [ownerPassword, authenticatorPassword, authAdminPassword].map((key, at) => [
    key,
    `legacy-${passwords[at]}`,
  ]);
  await putSecret(deps, ref, databaseNames.name, Object.fromEntries(values), { [LABEL_PROJECT]: ref });
}

test('a project of an earlier release keeps database names with its ref through all operations', async (deps) => {
  const ref = `${run}-legacy`;
  await ofAnEarlierRelease(deps, ref);
  await create(deps, 'legacy', { deletionPolicy: 'Retain' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const forget = `DELETE FROM slipway.databases WHERE ref = '${ref}'`;
  await query(adminUrl(deps.postgres), forget);
  const before = await loginOf(deps, ref);
  assert.match(
    before[databaseNames.url] as string,
    new RegExp(`^postgresql://postgres\\.${ref}:legacy-a@.*/p-${ref}$`),
  );
  assert.is(before[databaseNames.id], undefined);
  await query(before[databaseNames.url], 'CREATE TABLE kept AS SELECT 9 AS id');
  await change(deps, ref, { rotation: { databasePasswords: 1 } });
  const rotated = await until(async () => {
    const login = await loginOf(deps, ref);
    return login[databaseNames.url] === before[databaseNames.url] ? undefined : login;
  }, 'another URL');
  assert.match(rotated[databaseNames.url] as string, new RegExp(`^postgresql://postgres\\.${ref}:`));
  assert.ok(await loginWorks(rotated[databaseNames.url] as string));
  await change(deps, ref, { suspend: true });
  await reaches(deps, ref, ({ status }) => status?.phase === 'suspended', 'suspended');
  assert.not(await loginWorks(rotated[databaseNames.url] as string));
  await change(deps, ref, { suspend: false });
  await reaches(deps, ref, isHealthy, 'healthy again');
  await remove(deps, ref);
  assert.not(await loginWorks(rotated[databaseNames.url] as string));
  await create(deps, 'legacy', {});
  await reaches(deps, ref, isHealthy, 'healthy with its data');
  const { [databaseNames.url]: url } = await loginOf(deps, ref);
  assert.equal(await query(url, 'SELECT id FROM kept'), [{ id: 9 }]);
  await remove(deps, ref);
  const left =
    `SELECT datname FROM pg_database WHERE datname = 'p-${ref}' ` +
    `UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE '%.${ref}'`;
  assert.equal(await query(adminUrl(deps.postgres), left), []);
});

test('a new project has database names with a random id, which a repair of its Secret keeps', async (deps) => {
  const ref = await create(deps, 'opaque-telling');
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await loginOf(deps, ref);
  const id = before[databaseNames.id] as string;
  assert.match(id, /^db_[a-z]{20}$/);
  assert.match(before[databaseNames.url] as string, new RegExp(`^postgresql://postgres\\.${id}:.*/p-${id}$`));
  await query(before[databaseNames.url], 'CREATE TABLE kept AS SELECT 5 AS id');
  await putSecret(deps, ref, databaseNames.name, { [databaseNames.id]: 'db_another' });
  await until(async () => (await loginOf(deps, ref))[databaseNames.id] === id, 'the id again');
  await deps.kubernetes.client.delete(`${secretsPath(ref)}/${databaseNames.name}`);
  const after = await until(() => loginOf(deps, ref).catch(() => undefined), 'the new Secret');
  assert.is(after[databaseNames.id], id);
  await until(() => loginWorks(after[databaseNames.url] as string), 'the new password to work');
  assert.equal(await query(after[databaseNames.url], 'SELECT id FROM kept'), [{ id: 5 }]);
});

test('a project gets its keys, variables and deploy key back when its namespace was deleted', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = await create(deps, 'namespace-deleted');
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await keysOf(deps, ref);
  const labels = { [LABEL_PROJECT]: ref };
  await putSecret(deps, ref, SECRETS.env.name, { GREETING: 'hello', OLD: 'x' }, labels);
  await putSecret(deps, ref, SECRETS.git.name, { [SECRETS.git.token]: 'sealed' }, labels);
  await change(deps, ref, {
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
  // A deploy key is in the Secret of the token, and may be there alone.
  const deployKey = { [SECRETS.git.deployKey]: 'sealed too' };
  await client.patch(`${secretsPath(ref)}/${SECRETS.git.name}`, {
    data: { ...secretData(deployKey), [SECRETS.git.token]: null },
  });
  const deployKeySecretRef = { name: SECRETS.git.name, key: SECRETS.git.deployKey };
  await change(deps, ref, { source: { tokenSecretRef: null, deployKeySecretRef } });
  await copied(SECRETS.git.name, deployKey);
  await copied(keyNames.name, before);
  assert.is((await copyOf(keyNames.name))?.metadata.labels?.[LABEL_PROJECT], undefined);

  const { uid } = (await client.get<KubeObject>(namespacePath(ref))).metadata;
  await client.delete(namespacePath(ref));
  await until(async () => {
    const namespace = await client.get<KubeObject>(namespacePath(ref)).catch(() => undefined);
    return namespace && namespace.metadata.uid !== uid ? namespace : undefined;
  }, 'another namespace');
  const again = (name: string) => until(() => secretOf(deps, ref, name).catch(() => undefined), `${name} again`);
  assert.equal(await again(keyNames.name), before);
  assert.equal(await again(SECRETS.env.name), { GREETING: 'new' });
  assert.equal(await again(SECRETS.git.name), deployKey);
  await reaches(deps, ref, isHealthy, 'healthy again');

  await change(deps, ref, { env: null });
  await client.delete(`${secretsPath(ref)}/${SECRETS.env.name}`);
  await until(async () => (await copyOf(SECRETS.env.name)) === undefined || undefined, 'the copy of env to be dropped');
  const missing = await client.get(`${secretsPath(ref)}/${SECRETS.env.name}`).catch(({ status }) => ({ status }));
  assert.equal(missing, { status: 404 }, 'variables that the Project no longer names are not restored');

  await remove(deps, ref);
  for (const name of [keyNames.name, SECRETS.git.name])
    await until(async () => (await copyOf(name)) === undefined || undefined, `the copy of ${name} to be collected`);
});

test('the copy of an earlier project of the same name is not restored', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = `${run}-copied-before`;
  // The state after a deletion with `--cascade=orphan`: the copy has no owner, so garbage collection does not delete
  // it.
  const metadata = { name: copyName(keyNames.name, ref) };
  const data = secretData({ [keyNames.jwtSecret]: 'of-another-owner' });
  await client.create<object>(COPIES, { apiVersion: 'v1', kind: 'Secret', metadata, data });
  await create(deps, 'copied-before');
  await reaches(deps, ref, isHealthy, 'healthy');
  const keys = await keysOf(deps, ref);
  assert.is.not(keys[keyNames.jwtSecret], 'of-another-owner');
  const copy = () => client.get<Secret>(`${COPIES}/${copyName(keyNames.name, ref)}`).catch(() => undefined);
  await until(
    async () => isDeepStrictEqual(plainText(await copy()), keys) || undefined,
    'the copy to be this project’s',
  );
});

test.run();
