import { randomBytes } from 'node:crypto';
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { FINALIZER, GROUP, VERSION } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS, withTargets } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { FaultyApiServer } from '@slipway/kubernetes/faults/faulty-api-server.testing.js';
import { clientOf, startTestKubernetes, type TestKubernetes } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Registry, startRegistry } from './index.js';
import type { AppTenant, BackendTenant, SiteTenant } from './tenant.js';

const PROJECTS = `/apis/${GROUP}/${VERSION}/projects`;

const log = pino({ level: 'silent' });
const made: string[] = [];
let kubernetes: TestKubernetes;
let client: KubeClient;
let faulty: FaultyApiServer;
let faultyClient: KubeClient;
let registry: Registry;
let forgotten: string[] = [];
let changed: string[] = [];

test.before(async () => {
  kubernetes = await startTestKubernetes();
  ({ client } = kubernetes);
  faulty = await FaultyApiServer.start(kubernetes.kubeconfig, () => 1);
  faultyClient = await clientOf(faulty.kubeconfig);
  registry = startRegistry({
    client: faultyClient,
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
  await faultyClient?.close();
  await faulty?.close();
  for (const ref of made) {
    await client.patch(`${PROJECTS}/${ref}`, { metadata: { finalizers: null } }).catch(() => undefined);
    await client.delete(`${PROJECTS}/${ref}`).catch(() => undefined);
    await client.delete(`/api/v1/namespaces/${namespaceOf(ref)}`).catch(() => undefined);
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
  await client.create<object>(PROJECTS, {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'Project',
    metadata: { name: ref, finalizers: [FINALIZER] },
    spec: { owner: 'al@example.com', ...spec },
  });
  await client.create<object>('/api/v1/namespaces', { metadata: { name: namespaceOf(ref) } });
}

async function makeSecret(ref: string, name: string, values: Record<string, string>, namespace = namespaceOf(ref)) {
  const metadata = { name, namespace, labels: { [LABEL_PROJECT]: ref } };
  await client.create<object>(`/api/v1/namespaces/${namespace}/secrets`, { metadata, stringData: values });
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
  await until(() => registry.backend(ref), 'the project');
  return ref;
}

test('functions get the variables with the target runtime or all', async () => {
  const ref = await makeTenant();
  const targets = new Map([['B', 'build'] as const, ['C', 'runtime'] as const]);
  await makeSecret(ref, SECRETS.env.name, withTargets({ A: '1', B: '2', C: '3' }, targets));
  await until(() => 'A' in registry.environment(ref), 'the variables');
  assert.equal(registry.environment(ref), { A: '1', C: '3' });
});

const secretPath = (ref: string, name: string) => `/api/v1/namespaces/${namespaceOf(ref)}/secrets/${name}`;

async function setSecret(ref: string, values: Record<string, string>): Promise<void> {
  await client.patch(secretPath(ref, SECRETS.keys.name), { stringData: values });
}

test('a project is served with its logins once the Project and both Secrets exist', async () => {
  const ref = newRef();
  await makeProject(ref);
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  const witness = await makeTenant();
  assert.is(registry.backend(ref), undefined);
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  await until(() => registry.backend(ref), 'the project');
  const { revision, incarnation, services, ...tenant } = registry.backend(ref) as BackendTenant;
  assert.ok(revision);
  assert.ok(incarnation);
  assert.ok(services.has('auth'));
  const address = { host: '/run/postgres', port: 4002, database: 'p-x', account: 'al@example.com', project: ref };
  assert.equal(tenant, {
    ref,
    suspended: false,
    kind: 'backend',
    upstream: 'pooled',
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
  assert.ok(registry.backend(witness));
  assert.equal(forgotten, []);
});

test('the roles and the slot of a project come from the database id in its Secret', async () => {
  const ref = newRef();
  await makeProject(ref);
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, { ...DATABASE, [SECRETS.database.id]: 'db_opaque' });
  const { owner, authenticator, authAdmin, replicationSlot } = await until(() => registry.backend(ref), 'the project');
  assert.equal(
    [owner.user, authenticator.user, authAdmin.user, replicationSlot],
    ['postgres.db_opaque', 'authenticator.db_opaque', 'auth_admin.db_opaque', 'realtime_db_opaque'],
  );
});

test('a project with a new JWT secret has a new revision, and keeps its resources', async () => {
  const ref = await makeTenant();
  const before = registry.backend(ref) as BackendTenant;
  await setSecret(ref, { [SECRETS.keys.jwtSecret]: 'second' });
  await until(() => registry.backend(ref)?.jwtSecret === 'second', 'the change');
  const after = registry.backend(ref) as BackendTenant;
  assert.is.not(after.revision, before.revision);
  assert.is(after.incarnation, before.incarnation);
  assert.equal([forgotten, changed], [[], [ref]]);
});

test('the next, the present and the previous JWT secret are accepted during a rotation', async () => {
  const ref = await makeTenant();
  const { nextJwtSecret, previousJwtSecret, jwtSecret } = SECRETS.keys;
  await setSecret(ref, { [nextJwtSecret]: 'coming', [previousJwtSecret]: '' });
  await until(() => registry.backend(ref)?.otherJwtSecrets.length === 1, 'the change');
  assert.equal(registry.backend(ref)?.otherJwtSecrets, ['coming']);
  await setSecret(ref, { [jwtSecret]: 'coming', [nextJwtSecret]: '', [previousJwtSecret]: 'first' });
  await until(() => registry.backend(ref)?.jwtSecret === 'coming', 'the change');
  assert.equal(registry.backend(ref)?.otherJwtSecrets, ['first']);
});

test('a project whose database moved gets a new incarnation, and its old resources are released', async () => {
  const ref = await makeTenant();
  const before = registry.backend(ref)?.incarnation;
  const moved = { [SECRETS.database.host]: 'elsewhere' };
  await client.patch(secretPath(ref, SECRETS.database.name), { stringData: moved });
  await until(() => registry.backend(ref)?.owner.host === 'elsewhere', 'the change');
  assert.is.not(registry.backend(ref)?.incarnation, before);
  assert.equal(forgotten, [ref]);
});

test('a suspended project releases its resources, and is served again when it is resumed', async () => {
  const ref = await makeTenant();
  const suspend = (suspended: boolean) => client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: suspended } });
  await suspend(true);
  await until(() => registry.backend(ref)?.suspended, 'the change');
  assert.equal(forgotten, [ref]);
  await suspend(false);
  await until(() => registry.backend(ref)?.suspended === false, 'the change');
  await client.patch(`${PROJECTS}/${ref}`, { spec: { suspendedByOwner: true } });
  await until(() => registry.backend(ref)?.suspended, 'the suspension by its owner');
});

test('the upstream of a project is the one in its status', async () => {
  const ref = await makeTenant();
  await client.patch(`${PROJECTS}/${ref}/status`, { status: { placement: 'deployments' } });
  await until(() => registry.backend(ref)?.upstream === 'pods', 'the change');
  assert.equal(forgotten, []);
});

test('the auth settings of a project come from its Secret, and are empty without one', async () => {
  const ref = await makeTenant();
  assert.equal(registry.backend(ref)?.authConfig, {});
  await makeSecret(ref, SECRETS.auth.name, { GOTRUE_SITE_URL: 'https://app.example.com' });
  await until(() => registry.backend(ref)?.authConfig?.GOTRUE_SITE_URL === 'https://app.example.com', 'the change');
  await client.delete(secretPath(ref, SECRETS.auth.name));
  await until(() => registry.backend(ref)?.authConfig?.GOTRUE_SITE_URL === undefined, 'the change');
});

test('a change of a field that the data plane does not use releases no resources', async () => {
  const ref = await makeTenant();
  const before = registry.backend(ref);
  await setSecret(ref, { note: 'x' });
  await client.patch(`${PROJECTS}/${ref}`, { spec: { formsEnabled: true } });
  const later = await makeTenant();
  assert.ok(registry.backend(later));
  assert.is(registry.backend(ref), before);
  assert.equal(forgotten, []);
});

test('a project that is being deleted is removed at once, while its finalizers run', async () => {
  const ref = await makeTenant();
  await client.delete(`${PROJECTS}/${ref}`);
  await until(() => registry.backend(ref) === undefined, 'the project to go');
  assert.equal(forgotten, [ref]);
  assert.ok(await client.get(`${PROJECTS}/${ref}`));
});

test('a project without a signing secret is not served', async () => {
  const ref = await makeTenant();
  await setSecret(ref, { [SECRETS.keys.jwtSecret]: '' });
  await until(() => registry.backend(ref) === undefined, 'the project to go');
});

const onMachine = (ref: string) => registry.tenant(ref) as BackendTenant | undefined;

async function makeDedicated(): Promise<string> {
  const ref = newRef();
  await makeProject(ref, { type: 'dedicated' });
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  await until(() => registry.tenant(ref), 'the project');
  return ref;
}

test('a dedicated project has the machine in its status, and no database of this data plane', async () => {
  const ref = await makeDedicated();
  assert.equal([onMachine(ref)?.upstream, onMachine(ref)?.machine], ['machine', undefined]);
  assert.ok(onMachine(ref)?.services.has('functions'));
  const certificate = certificateOf(await selfSigned('127.0.0.1'));
  await setStatus(ref, { placement: 'deployments', server: { address: '127.0.0.1', certificate } });
  await until(() => onMachine(ref)?.machine, 'the machine');
  assert.equal([onMachine(ref)?.upstream, onMachine(ref)?.machine], ['machine', { address: '127.0.0.1', certificate }]);
  assert.is(registry.backend(ref), undefined);
});

test('a dedicated project with another address or certificate releases its connections', async () => {
  const ref = await makeDedicated();
  const certificate = certificateOf(await selfSigned('127.0.0.1'));
  const renewed = certificateOf(await selfSigned('127.0.0.1'));
  for (const server of [
    { address: '127.0.0.1', certificate },
    { address: '127.0.0.2', certificate },
    { address: '127.0.0.2', certificate: renewed },
  ]) {
    forgotten = [];
    await setStatus(ref, { server });
    await until(() => onMachine(ref)?.machine?.certificate === server.certificate, 'the certificate');
    await until(() => onMachine(ref)?.machine?.address === server.address, 'the address');
    assert.equal(forgotten, [ref]);
  }
  const before = onMachine(ref);
  await setStatus(ref, { server: { id: '7', cores: 4 } });
  await makeTenant();
  assert.is(onMachine(ref), before);
});

test('a malformed address or certificate of a machine counts as none', async () => {
  const ref = await makeDedicated();
  const certificate = certificateOf(await selfSigned('127.0.0.1'));
  const second = certificateOf(await selfSigned('127.0.0.1'));
  const good = { address: '127.0.0.1', certificate };
  const withAddress = ['evil.example', '127.1', '1.2.3.4:80', '010.0.0.1', '::1', '', ' 127.0.0.1'].map((address) => ({
    ...good,
    address,
  }));
  const body = certificate.split('\n').slice(1, 3).join('\n');
  const withCertificate = [
    'garbage',
    '',
    certificate + second,
    certificate.replace('CERTIFICATE', 'X509 CRL'),
    `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`,
    `${certificate}-----BEGIN PRIVATE KEY-----`,
    `# ${certificate}`,
  ].map((text) => ({ ...good, certificate: text }));
  for (const server of [...withAddress, ...withCertificate]) {
    await setStatus(ref, { server: good });
    await until(() => onMachine(ref)?.machine, 'the machine');
    await setStatus(ref, { server });
    await until(() => onMachine(ref) && !onMachine(ref)?.machine, `no machine for ${JSON.stringify(server)}`);
  }
});

const certificateOf = (pem: string) => pem.slice(pem.indexOf('-----BEGIN CERTIFICATE-----'));

test('a frontend project is hosted without a database login or key, even if Secrets have some', async () => {
  const ref = newRef();
  await makeProject(ref, { type: 'frontend' });
  await makeSecret(ref, SECRETS.keys.name, keysOf('first'));
  await makeSecret(ref, SECRETS.database.name, DATABASE);
  const { revision, ...tenant } = (await until(() => registry.tenant(ref), 'the project')) as SiteTenant;
  assert.ok(revision);
  const siteUrl = `http://${ref}.localhost:4000`;
  assert.equal(tenant, { kind: 'site', ref, suspended: false, formsEnabled: false, type: 'frontend', siteUrl });
  assert.is(registry.backend(ref), undefined);
  await client.patch(`${PROJECTS}/${ref}`, { spec: { formsEnabled: true } });
  await until(() => (registry.tenant(ref) as SiteTenant | undefined)?.formsEnabled, 'forms to be accepted');
  await client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: true } });
  await until(() => registry.tenant(ref)?.suspended, 'the suspension');
  await client.delete(`${PROJECTS}/${ref}`);
  await until(() => registry.tenant(ref) === undefined, 'the project to go');
  assert.equal(forgotten, []);
});

test('a Secret in another namespace is not used for the project, whatever its label says', async () => {
  const victim = await makeTenant();
  const attacker = newRef();
  await makeProject(attacker);
  const namespace = namespaceOf(attacker);
  await makeSecret(victim, SECRETS.keys.name, keysOf('forged'), namespace);
  await makeTenant();
  assert.is(registry.backend(victim)?.jwtSecret, 'first');
});

test('known projects are served while the Kubernetes API is unavailable, and changes are applied later', async () => {
  const unchanged = await makeTenant();
  const rotated = await makeTenant();
  const deleted = await makeTenant();
  faulty.cut();
  await setSecret(rotated, { [SECRETS.keys.jwtSecret]: 'second' });
  await client.delete(`${PROJECTS}/${deleted}`);
  const fresh = newRef();
  await makeProject(fresh);
  await makeSecret(fresh, SECRETS.keys.name, keysOf('first'));
  await makeSecret(fresh, SECRETS.database.name, DATABASE);
  for (const ref of [unchanged, rotated, deleted]) assert.ok(registry.backend(ref));
  assert.ok(registry.complete);
  faulty.mend();
  await until(() => registry.backend(fresh) && !registry.backend(deleted), 'the change');
  await until(() => registry.backend(rotated)?.jwtSecret === 'second', 'the change');
  assert.ok(registry.backend(unchanged));
  assert.equal([forgotten, changed], [[deleted], [rotated]]);
});

const setStatus = (ref: string, status: object) =>
  client.patch(`${PROJECTS}/${ref}/status`, { status }) as Promise<unknown>;

const appOf = (ref: string) => registry.tenant(ref) as AppTenant | undefined;

test('an app has its account and the address of its container, whose change is a new revision', async () => {
  const ref = newRef();
  await makeProject(ref, { type: 'app', owner: 'Al@Example.com' });
  const { revision, incarnation, ...tenant } = (await until(() => appOf(ref), 'the project')) as AppTenant;
  const siteUrl = `http://${ref}.localhost:4000`;
  const account = 'al@example.com';
  assert.equal(tenant, { kind: 'app', ref, suspended: false, type: 'app', siteUrl, account, upstream: undefined });
  await setStatus(ref, { upstream: '198.18.0.3:8080' });
  await until(() => appOf(ref)?.upstream?.host === '198.18.0.3', 'the address');
  assert.is.not(appOf(ref)?.revision, revision);
  assert.is(appOf(ref)?.incarnation, incarnation);
  await setStatus(ref, { upstream: '198.18.0.3:0' });
  await until(() => appOf(ref)?.upstream === undefined, 'the invalid address to be ignored');
  assert.equal(forgotten, []);
});

test('a container reaches the linked project of the same owner alone', async () => {
  const [app, database] = [newRef(), newRef()];
  const spec = { type: 'app', app: { databaseProject: database } };
  await makeProject(database);
  await makeProject(app, spec);
  const addresses = ['198.18.77.1', '198.18.77.3'];
  const status = { databaseLink: { project: database, addresses } };
  await client.patch(`${PROJECTS}/${app}/status`, { status });
  for (const address of addresses) {
    await until(() => registry.linkedTo(address) === database, `${address} is linked`);
  }
  assert.is(registry.linkedTo('198.18.77.5'), undefined);
  await client.patch(`${PROJECTS}/${database}`, { spec: { owner: 'bo@example.com' } });
  await until(() => registry.linkedTo('198.18.77.1') === undefined, 'no link after a transfer');
  await client.patch(`${PROJECTS}/${database}`, { spec: { owner: 'al@example.com' } });
  await until(() => registry.linkedTo('198.18.77.1') === database, 'linked again');
  await client.patch(`${PROJECTS}/${app}`, { spec: { suspend: true } });
  await until(() => registry.linkedTo('198.18.77.1') === undefined, 'no link of a suspended app');
  await client.patch(`${PROJECTS}/${app}`, { spec: { suspend: null } });
  await until(() => registry.linkedTo('198.18.77.1') === database, 'linked again');
  await client.patch(`${PROJECTS}/${app}/status`, { status: { databaseLink: null } });
  await until(() => registry.linkedTo('198.18.77.1') === undefined, 'no link');
});

test('an app that is suspended or deleted is forgotten', async () => {
  const ref = newRef();
  await makeProject(ref, { type: 'app' });
  await until(() => appOf(ref), 'the project');
  await client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: true } });
  await until(() => forgotten.includes(ref), 'the suspension');
  assert.ok(appOf(ref)?.suspended);
  await client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: false } });
  await until(() => appOf(ref)?.suspended === false, 'the end of the suspension');
  forgotten = [];
  await client.delete(`${PROJECTS}/${ref}`);
  await until(() => forgotten.includes(ref), 'the deletion');
  assert.is(appOf(ref), undefined);
});

test.run();
