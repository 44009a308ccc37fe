import { randomBytes } from 'node:crypto';
import { PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import { FINALIZER, GROUP, LABEL_PROJECT, namespaceOf, SECRETS, VERSION } from '@slipway/crds';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Tenant } from '../tenant.js';
import {
  type FailingProxy,
  startFailingProxy,
  startTestKubernetes,
  type TestKubernetes,
} from '../testing/kubernetes.js';
import { until } from '../testing/until.js';
import { type Registry, startRegistry } from './index.js';

const PROJECTS = { group: GROUP, version: VERSION, plural: 'projects' };
const MERGE = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

const log = pino({ level: 'silent' });
const made: string[] = [];
let kubernetes: TestKubernetes;
let core: TestKubernetes['core'];
let custom: TestKubernetes['custom'];
let proxy: FailingProxy;
let registry: Registry;
let forgotten: string[] = [];
let changed: string[] = [];

test.before(async () => {
  kubernetes = await startTestKubernetes();
  ({ core, custom } = kubernetes);
  proxy = await startFailingProxy(kubernetes.kubeConfig);
  registry = startRegistry({
    kubeConfig: proxy.kubeConfig,
    installation: { publicUrl: 'http://localhost:4000', openedServices: {}, site: undefined },
    log,
    onForget: (ref) => forgotten.push(ref),
    onChange: ({ ref }) => changed.push(ref),
    onEnvironment: () => undefined,
  });
  await until(() => registry.complete, 'the whole list');
});

test.after(async () => {
  await registry?.close();
  await proxy?.close();
  for (const ref of made) {
    await custom
      .patchClusterCustomObject({ ...PROJECTS, name: ref, body: { metadata: { finalizers: null } } }, MERGE)
      .catch(() => undefined);
    await custom.deleteClusterCustomObject({ ...PROJECTS, name: ref }).catch(() => undefined);
    await core.deleteNamespace({ name: namespaceOf(ref) }).catch(() => undefined);
  }
  await kubernetes?.close();
});

test.before.each(() => {
  forgotten = [];
  changed = [];
});

const newRef = () => `registry-${randomBytes(4).toString('hex')}`;

async function makeProject(ref: string, spec: object = {}): Promise<void> {
  made.push(ref);
  await custom.createClusterCustomObject({
    ...PROJECTS,
    body: {
      apiVersion: `${GROUP}/${VERSION}`,
      kind: 'Project',
      metadata: { name: ref, finalizers: [FINALIZER] },
      spec: { owner: 'al@example.com', ...spec },
    },
  });
  await core.createNamespace({ body: { metadata: { name: namespaceOf(ref) } } });
}

async function makeSecret(ref: string, name: string, values: Record<string, string>, namespace = namespaceOf(ref)) {
  const metadata = { name, namespace, labels: { [LABEL_PROJECT]: ref } };
  await core.createNamespacedSecret({ namespace, body: { metadata, stringData: values } });
}

const keysOf = (secret: string) => ({
  [SECRETS.keys.jwtSecret]: secret,
  [SECRETS.keys.anonKey]: 'anon',
  [SECRETS.keys.serviceRoleKey]: 'service',
});

const DATABASE = {
  [SECRETS.database.host]: '/run/postgres',
  [SECRETS.database.port]: '4002',
  [SECRETS.database.database]: 'p-x',
  [SECRETS.database.authenticatorPassword]: 'one',
  [SECRETS.database.authAdminPassword]: 'two',
  [SECRETS.database.ownerPassword]: 'three',
};

async function makeTenant(): Promise<string> {
  const ref = newRef();
  await makeProject(ref);
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  await until(() => registry.tenant(ref), 'the project');
  return ref;
}

async function setSecret(ref: string, values: Record<string, string>): Promise<void> {
  const target = { name: SECRETS.keys.name, namespace: namespaceOf(ref) };
  await core.patchNamespacedSecret({ ...target, body: { stringData: values } }, MERGE);
}

test('a project is served once it and both of its Secrets are there, with its logins', async () => {
  const ref = newRef();
  await makeProject(ref);
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  const witness = await makeTenant();
  assert.is(registry.tenant(ref), undefined);
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  await until(() => registry.tenant(ref), 'the project');
  const { revision, incarnation, services, ...tenant } = registry.tenant(ref) as Tenant;
  assert.ok(revision);
  assert.ok(incarnation);
  assert.ok(services.has('auth'));
  const address = { host: '/run/postgres', port: 4002, database: 'p-x', account: 'al@example.com' };
  assert.equal(tenant, {
    ref,
    suspended: false,
    placement: 'pooled',
    jwtSecret: 'first',
    otherJwtSecrets: [],
    anonKey: 'anon',
    serviceRoleKey: 'service',
    url: `http://localhost:4000/p/${ref}`,
    type: 'shared',
    plan: 'free',
    authConfig: {},
    owner: { ...address, user: `postgres.${ref}`, password: 'three' },
    authenticator: { ...address, user: `authenticator.${ref}`, password: 'one' },
    authAdmin: { ...address, user: `auth_admin.${ref}`, password: 'two' },
    replicationSlot: `realtime_${ref.replaceAll('-', '_')}`,
  });
  assert.ok(registry.tenant(witness));
  assert.equal(forgotten, []);
});

test('the roles and the slot of a project come from the database id in its Secret', async () => {
  const ref = newRef();
  await makeProject(ref);
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, { ...DATABASE, [SECRETS.database.id]: 'db_opaque' });
  const { owner, authenticator, authAdmin, replicationSlot } = await until(() => registry.tenant(ref), 'the project');
  assert.equal(
    [owner.user, authenticator.user, authAdmin.user, replicationSlot],
    ['postgres.db_opaque', 'authenticator.db_opaque', 'auth_admin.db_opaque', 'realtime_db_opaque'],
  );
});

test('a new secret gives the project a new revision, and nothing is let go', async () => {
  const ref = await makeTenant();
  const before = registry.tenant(ref) as Tenant;
  await setSecret(ref, { [SECRETS.keys.jwtSecret]: 'second' });
  await until(() => registry.tenant(ref)?.jwtSecret === 'second', 'the change');
  const after = registry.tenant(ref) as Tenant;
  assert.is.not(after.revision, before.revision);
  assert.is(after.incarnation, before.incarnation);
  assert.equal([forgotten, changed], [[], [ref]]);
});

test('while keys are rotated the secret that comes and the one that was are known beside the one that signs', async () => {
  const ref = await makeTenant();
  const { nextJwtSecret, previousJwtSecret, jwtSecret } = SECRETS.keys;
  await setSecret(ref, { [nextJwtSecret]: 'coming', [previousJwtSecret]: '' });
  await until(() => registry.tenant(ref)?.otherJwtSecrets.length === 1, 'the change');
  assert.equal(registry.tenant(ref)?.otherJwtSecrets, ['coming']);
  await setSecret(ref, { [jwtSecret]: 'coming', [nextJwtSecret]: '', [previousJwtSecret]: 'first' });
  await until(() => registry.tenant(ref)?.jwtSecret === 'coming', 'the change');
  assert.equal(registry.tenant(ref)?.otherJwtSecrets, ['first']);
});

test('a project whose database moved has another incarnation, and what was held of the old one is let go', async () => {
  const ref = await makeTenant();
  const before = registry.tenant(ref)?.incarnation;
  const target = { name: SECRETS.database.name, namespace: namespaceOf(ref) };
  await core.patchNamespacedSecret(
    { ...target, body: { stringData: { [SECRETS.database.host]: 'elsewhere' } } },
    MERGE,
  );
  await until(() => registry.tenant(ref)?.owner.host === 'elsewhere', 'the change');
  assert.is.not(registry.tenant(ref)?.incarnation, before);
  assert.equal(forgotten, [ref]);
});

test('a suspended project is known as such, what was held of it is let go, and it comes back', async () => {
  const ref = await makeTenant();
  const suspend = (suspended: boolean) =>
    custom.patchClusterCustomObject({ ...PROJECTS, name: ref, body: { spec: { suspend: suspended } } }, MERGE);
  await suspend(true);
  await until(() => registry.tenant(ref)?.suspended, 'the change');
  assert.equal(forgotten, [ref]);
  await suspend(false);
  await until(() => registry.tenant(ref)?.suspended === false, 'the change');
});

test('where a project answers from follows its status', async () => {
  const ref = await makeTenant();
  const body = { status: { placement: 'deployments' } };
  await custom.patchClusterCustomObjectStatus({ ...PROJECTS, name: ref, body }, MERGE);
  await until(() => registry.tenant(ref)?.placement === 'deployments', 'the change');
  assert.equal(forgotten, []);
});

test("the settings of a project's auth come from its Secret, change with it, and are none without", async () => {
  const ref = await makeTenant();
  assert.equal(registry.tenant(ref)?.authConfig, {});
  const namespace = namespaceOf(ref);
  await makeSecret(ref, SECRETS.auth.name, { GOTRUE_SITE_URL: 'https://app.example.com' });
  await until(() => registry.tenant(ref)?.authConfig?.GOTRUE_SITE_URL === 'https://app.example.com', 'the change');
  await core.deleteNamespacedSecret({ name: SECRETS.auth.name, namespace });
  await until(() => registry.tenant(ref)?.authConfig?.GOTRUE_SITE_URL === undefined, 'the change');
});

test('a change that touches neither keys nor logins lets go of nothing', async () => {
  const ref = await makeTenant();
  const before = registry.tenant(ref);
  await setSecret(ref, { note: 'x' });
  await custom.patchClusterCustomObject({ ...PROJECTS, name: ref, body: { spec: { formsEnabled: true } } }, MERGE);
  const later = await makeTenant();
  assert.ok(registry.tenant(later));
  assert.is(registry.tenant(ref), before);
  assert.equal(forgotten, []);
});

test('a project that is being deleted is forgotten at once, though it still exists', async () => {
  const ref = await makeTenant();
  await custom.deleteClusterCustomObject({ ...PROJECTS, name: ref });
  await until(() => registry.tenant(ref) === undefined, 'the project to go');
  assert.equal(forgotten, [ref]);
  assert.ok(await custom.getClusterCustomObject({ ...PROJECTS, name: ref }));
});

test('a project without a secret to sign with is not served', async () => {
  const ref = await makeTenant();
  await setSecret(ref, { [SECRETS.keys.jwtSecret]: '' });
  await until(() => registry.tenant(ref) === undefined, 'the project to go');
});

test('a project of a type that has no services here is not served', async () => {
  const ref = newRef();
  await makeProject(ref, { type: 'frontend' });
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  await makeTenant();
  assert.is(registry.tenant(ref), undefined);
});

test("a Secret in another namespace is not taken for the project's, whatever its label says", async () => {
  const victim = await makeTenant();
  const attacker = newRef();
  await makeProject(attacker);
  const namespace = namespaceOf(attacker);
  await makeSecret(victim, SECRETS.keys.name, keysOf('forged'), namespace);
  await makeTenant();
  assert.is(registry.tenant(victim)?.jwtSecret, 'first');
});

test('while the Kubernetes API is away what is known is served, and what changed meanwhile is seen after', async () => {
  const kept = await makeTenant();
  const rotated = await makeTenant();
  const deleted = await makeTenant();
  proxy.cut();
  await setSecret(rotated, { [SECRETS.keys.jwtSecret]: 'second' });
  await custom.deleteClusterCustomObject({ ...PROJECTS, name: deleted });
  const fresh = newRef();
  await makeProject(fresh);
  await makeSecret(fresh, SECRETS.keys.name, keysOf('first'));
  await makeSecret(fresh, SECRETS.database.name, DATABASE);
  for (const ref of [kept, rotated, deleted]) assert.ok(registry.tenant(ref));
  assert.ok(registry.complete);
  proxy.restore();
  await until(() => registry.tenant(fresh) && !registry.tenant(deleted), 'the change');
  await until(() => registry.tenant(rotated)?.jwtSecret === 'second', 'the change');
  assert.ok(registry.tenant(kept));
  assert.equal([forgotten, changed], [[deleted], [rotated]]);
});

test('a watch that breaks is resumed from where it was, without listing again', async () => {
  await makeTenant();
  const { length: watches } = proxy.watches;
  // Of what a tenant is made of: those have just been heard of, whatever failed before.
  const lists = () => proxy.lists.filter((url) => /projects|project-keys|project-database/.test(url)).length;
  const before = lists();
  proxy.cut();
  proxy.restore();
  await makeTenant();
  await until(() => proxy.watches.length >= watches + 3, 'watches to be opened anew');
  assert.is(lists(), before);
  assert.match(proxy.watches.at(-1) as string, /resourceVersion=[1-9]/);
});

test('a version that is too old to resume from is listed anew, and nothing is missed', async () => {
  await makeTenant();
  const { length: lists } = proxy.lists;
  proxy.forgetVersion();
  await makeTenant();
  await until(() => proxy.lists.length > lists, 'another list');
});

test.run();
