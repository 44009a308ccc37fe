/**
 * Tests the whole Project controller, with a real Kubernetes API and a real Postgres. A small server replaces the data
 * plane, so that a test decides its responses.
 */

import { createHmac } from 'node:crypto';
import { FINALIZER, type Project } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS, whyTypeUnavailable } from '@slipway/installation';
import { isNotFound, type KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { deleteAndWait } from '../../testing.js';
import {
  condition,
  create,
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
  withOperator,
  written,
} from './operator.testing.js';
import { namespacePath, projectPath, type Secret, secretsPath } from './resources.js';

const test = suite<ReconcilerDeps>('project controller');
withOperator(test);

test('a Project becomes healthy with a namespace, signed keys, and a database that its URL opens', async (deps) => {
  const ref = await create(deps, 'whole');
  const project = await reaches(deps, ref, isHealthy, 'healthy');
  assert.is(project.status?.url, `http://localhost:4000/p/${ref}`);
  assert.is(project.status?.observedGeneration, project.metadata.generation);
  assert.ok(project.metadata.finalizers?.includes(FINALIZER));
  for (const type of ['Ready', 'NamespaceReady', 'KeysReady', 'DatabaseReady', 'ServicesReady']) {
    assert.is(condition(project, type)?.status, 'True', type);
  }
  assert.is(project.status?.services?.storage?.status, 'unavailable');
  const namespace = await deps.kubernetes.client.get<KubeObject>(namespacePath(ref));
  assert.is(namespace.metadata.labels?.[LABEL_PROJECT], ref);
  assert.is(namespace.metadata.ownerReferences?.[0]?.uid, project.metadata.uid);
  const keys = await secretOf(deps, ref, SECRETS.keys.name);
  for (const [key, role] of [
    [SECRETS.keys.anonKey, 'anon'],
    [SECRETS.keys.serviceRoleKey, 'service_role'],
  ] as const) {
    const [header, claims, signature] = (keys[key] as string).split('.') as [string, string, string];
    const expected = createHmac('sha256', keys[SECRETS.keys.jwtSecret] as string).update(`${header}.${claims}`);
    assert.is(signature, expected.digest('base64url'));
    const { iat, exp, ...rest } = JSON.parse(Buffer.from(claims, 'base64url').toString());
    assert.equal(rest, { iss: 'slipway', ref, role });
    assert.is(exp - iat, 10 * 365 * 24 * 3600);
  }
  const database = await secretOf(deps, ref, SECRETS.database.name);
  assert.ok(await loginWorks(database[SECRETS.database.url] as string));
});

test('a status is repaired at once when another client wrote it', async (deps) => {
  const ref = await create(deps, 'overwritten');
  const healthy = await reaches(deps, ref, isHealthy, 'healthy');
  const stale = { phase: 'error', message: 'what an operator found that led before' };
  await deps.kubernetes.client.patch(`${projectPath(ref)}/status`, { status: stale });
  const again = await reaches(deps, ref, isHealthy, 'healthy again');
  assert.equal(written(again), written(healthy));
});

test('a healthy Project is not written again, however often it is reconciled', async (deps) => {
  const ref = await create(deps, 'steady');
  await reaches(deps, ref, isHealthy, 'healthy');
  const keys = await deps.kubernetes.client.get<Secret>(`${secretsPath(ref)}/${SECRETS.keys.name}`);
  const before = await deps.kubernetes.client.patch<Project>(projectPath(ref), {
    metadata: { annotations: { look: 'again' } },
  });
  // A later project that is healthy shows that the first one was reconciled, as it was created earlier.
  const later = await create(deps, 'later', { name: 'later' });
  await reaches(deps, later, isHealthy, 'healthy');
  assert.equal(written(await get(deps, ref)), written(before));
  const after = await deps.kubernetes.client.get<Secret>(`${secretsPath(ref)}/${SECRETS.keys.name}`);
  assert.is(after.metadata.resourceVersion, keys.metadata.resourceVersion);
});

test('the status reports why a type of project is not available', async (deps) => {
  const ref = await create(deps, 'vm', { type: 'dedicated' });
  const project = await reaches(deps, ref, hasReason('EngineUnavailable'), 'refused');
  assert.is(project.status?.phase, 'error');
  assert.is(project.status?.message, whyTypeUnavailable('dedicated', { publicUrl: 'http://localhost:4000' }));
  assert.not(project.metadata.finalizers?.includes(FINALIZER));
});

test('the younger of two projects with one name and owner fails until the older is deleted', async (deps) => {
  const elder = await create(deps, 'a-elder', { name: 'shop' });
  await reaches(deps, elder, isHealthy, 'healthy');
  const younger = await create(deps, 'b-younger', { name: 'shop' });
  const refused = await reaches(deps, younger, hasReason('NameConflict'), 'refused');
  assert.is(refused.status?.phase, 'error');
  assert.match(refused.status?.message ?? '', new RegExp(elder));
  await remove(deps, elder);
  await reaches(deps, younger, isHealthy, 'healthy');
});

test('an owner’s address counts as the same in upper and lower case', async (deps) => {
  const elder = await create(deps, 'a-letters', { name: 'letters', owner: 'ada@example.com' });
  await reaches(deps, elder, isHealthy, 'healthy');
  const younger = await create(deps, 'b-letters', { name: 'letters', owner: 'Ada@EXAMPLE.com' });
  await reaches(deps, younger, hasReason('NameConflict'), 'refused');
});

test('a Project with the name of a Project that is being deleted waits, and never shows NameConflict', async (deps) => {
  const { client } = deps.kubernetes;
  const leaving = await create(deps, 'a-leaving', { name: 'again' });
  await reaches(deps, leaving, isHealthy, 'healthy');
  await client.patch(namespacePath(leaving), { metadata: { finalizers: ['slipway.dev/test'] } });
  await client.delete(projectPath(leaving));
  await reaches(deps, leaving, ({ status }) => status?.phase === 'deleting', 'deleting');
  const next = await create(deps, 'b-next', { name: 'again' });
  const waiting = await reaches(deps, next, ({ status }) => status?.phase !== undefined, 'a status');
  assert.is(waiting.status?.phase, 'provisioning');
  assert.is(condition(waiting, 'Ready')?.reason, 'Provisioning');
  assert.match(waiting.status?.message ?? '', new RegExp(`waiting for the project ${leaving}`));
  await client.patch(namespacePath(leaving), { metadata: { finalizers: null } });
  await reaches(deps, next, isHealthy, 'healthy');
});

test('a namespace without the project’s label is neither used nor deleted', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = `${run}-taken`;
  await client.create('/api/v1/namespaces', {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespaceOf(ref) },
  });
  await create(deps, 'taken', { name: 'taken' });
  await reaches(deps, ref, hasReason('NamespaceTaken'), 'refused');
  const secrets = await client.get<{ items: KubeObject[] }>(secretsPath(ref));
  assert.equal(secrets.items, []);
  await remove(deps, ref);
  const namespace = await client.get<KubeObject>(namespacePath(ref));
  assert.not(namespace.metadata.deletionTimestamp);
  await deleteAndWait(client, namespacePath(ref));
});

test('an owner’s JWT secret is awaited, rejected when too short, used, and replaced after a change', async (deps) => {
  const ref = await create(deps, 'moved', { name: 'moved', jwtSecretRef: { name: 'my-jwt' } });
  const waiting = await reaches(deps, ref, ({ status }) => /my-jwt/.test(status?.message ?? ''), 'waiting');
  assert.is(waiting.status?.phase, 'provisioning');
  assert.is(condition(waiting, 'DatabaseReady')?.status, 'True', 'the other steps continue');
  const labels = { [LABEL_PROJECT]: ref };
  await putSecret(deps, ref, 'my-jwt', { secret: 'too short' }, labels);
  await reaches(deps, ref, hasReason('JwtSecretTooShort'), 'refused');
  const secret = 'a secret that is more than thirty-two characters long';
  await putSecret(deps, ref, 'my-jwt', { secret });
  await reaches(deps, ref, isHealthy, 'healthy');
  const first = await secretOf(deps, ref, SECRETS.keys.name);
  assert.is(first[SECRETS.keys.jwtSecret], secret);
  await putSecret(deps, ref, 'my-jwt', { secret: `another ${secret}` });
  const second = await until(async () => {
    const keys = await secretOf(deps, ref, SECRETS.keys.name);
    return keys[SECRETS.keys.jwtSecret] !== secret ? keys : undefined;
  }, 'new keys');
  assert.is.not(second[SECRETS.keys.anonKey], first[SECRETS.keys.anonKey]);
  assert.is(second[SECRETS.keys.webhookSecret], first[SECRETS.keys.webhookSecret]);
});

test('a deleted Secret is created again, and the database gets its new passwords', async (deps) => {
  const ref = await create(deps, 'restored', { name: 'restored' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const before = await secretOf(deps, ref, SECRETS.database.name);
  await deps.kubernetes.client.delete(`${secretsPath(ref)}/${SECRETS.database.name}`);
  const after = await until(() => secretOf(deps, ref, SECRETS.database.name).catch(() => undefined), 'the new Secret');
  assert.is.not(after[SECRETS.database.ownerPassword], before[SECRETS.database.ownerPassword]);
  await until(() => loginWorks(after[SECRETS.database.url] as string), 'the new password to work');
  assert.not(await loginWorks(before[SECRETS.database.url] as string));
});

test('a project is not healthy while a service does not respond, and the message names the service', async (deps) => {
  deps.answer.status = 503;
  const ref = await create(deps, 'silent', { name: 'silent' });
  const waiting = await reaches(deps, ref, ({ status }) => /HTTP 503/.test(status?.message ?? ''), 'waiting');
  assert.is(waiting.status?.phase, 'provisioning');
  assert.is(condition(waiting, 'ServicesReady')?.status, 'False');
  deps.answer.status = 200;
  await reaches(deps, ref, isHealthy, 'healthy');
});

test('the status reports the end and the reason of a pause by the data plane, and drops them later', async (deps) => {
  const ref = await create(deps, 'paused', { name: 'paused' });
  await reaches(deps, ref, isHealthy, 'healthy');
  const details = 'until 2026-11-25T02:10:00.000Z, rest request';
  deps.answer = { status: 503, headers: { 'proxy-status': `slipway; error=project_paused; details="${details}"` } };
  const annotations = { 'example.com/touched': 'now' };
  await deps.kubernetes.client.patch(projectPath(ref), { metadata: { annotations } });
  const paused = await reaches(deps, ref, (project) => condition(project, 'Ready')?.reason === 'Paused', 'paused');
  assert.is(condition(paused, 'ServicesReady')?.reason, 'Paused');
  assert.is(paused.status?.phase, 'error');
  assert.match(paused.status?.message as string, `paused ${details}: twice within an hour the data plane stopped`);
  deps.answer = { status: 200 };
  await reaches(deps, ref, isHealthy, 'healthy again');
});

test('transitions are Events on the Project, and contain no secrets', async (deps) => {
  const ref = `${run}-whole`;
  const { client } = deps.kubernetes;
  const events = await until(async () => {
    const query = { fieldSelector: `involvedObject.name=${ref}` };
    const list = await client.get<{ items: { reason: string; type: string; message: string }[] }>(
      '/api/v1/namespaces/default/events',
      query,
    );
    return list.items.some(({ reason }) => reason === 'Healthy') ? list.items : undefined;
  }, 'the Event');
  const keys = await secretOf(deps, ref, SECRETS.keys.name);
  const project = JSON.stringify(await get(deps, ref));
  for (const secret of Object.values(keys)) {
    assert.not(JSON.stringify(events).includes(secret));
    assert.not(project.includes(secret));
  }
});

test('a deleted project reports once that it waits for its namespace, and writes nothing after that', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = await create(deps, 'lingering', { name: 'lingering' });
  await reaches(deps, ref, isHealthy, 'healthy');
  await client.patch(namespacePath(ref), { metadata: { finalizers: ['slipway.dev/test'] } });
  await client.delete(projectPath(ref));
  await reaches(deps, ref, ({ status }) => /waiting for the namespace/.test(status?.message ?? ''), 'waiting');
  const { metadata } = await client.patch<Project>(projectPath(ref), { metadata: { annotations: { look: 'again' } } });
  // A later project that is healthy shows that this one was reconciled.
  const later = await create(deps, 'after-lingering', { name: 'after-lingering' });
  await reaches(deps, later, isHealthy, 'healthy');
  assert.is((await get(deps, ref)).metadata.resourceVersion, metadata.resourceVersion);
  await client.patch(namespacePath(ref), { metadata: { finalizers: null } });
  await until(async () => !(await get(deps, ref).catch(() => undefined)), 'the Project to be deleted');
});

test('a deleted project leaves no database, role, namespace or Project', async (deps) => {
  const ref = await create(deps, 'leaving', { name: 'leaving' });
  await reaches(deps, ref, isHealthy, 'healthy');
  await remove(deps, ref);
  const gone = await deps.kubernetes.client.get(namespacePath(ref)).catch((error) => error);
  assert.ok(isNotFound(gone));
  const admin = new pg.Client(deps.postgres.admin());
  await admin.connect();
  const { rows } = await admin.query(
    'SELECT datname FROM pg_database WHERE datname LIKE $1 ' +
      'UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE $1',
    [`%${ref}`],
  );
  await admin.end();
  assert.equal(rows, []);
});

test.run();
