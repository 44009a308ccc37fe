/** Postgres clusters on a real Kubernetes: its scheduler, volumes and pods. SLIPWAY_E2E_KUBECONFIG names the cluster. */
import {
  authenticatorRole,
  customResourceDefinitions,
  DATA_NAMESPACE,
  databaseOf,
  LABEL_MANAGED_BY,
  LABEL_PROJECT,
  MANAGED_BY,
  namespaceOf,
  ownerRole,
  type Plan,
  type Project,
  REPLICATION_ROLE,
  readSite,
  type Site,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Informer } from '../../../runtime/informer.js';
import { isConflict, type KubeClient, type KubeObject } from '../../../runtime/kube.js';
import { Metrics } from '../../../runtime/metrics.js';
import { clientOf, deleteAndWait, silentLog, until } from '../../../testing.js';
import type { DatabaseRequest, EngineOutcome, EngineProject } from '../../engine.js';
import { Children } from '../children/children.js';
import { PostgresClusters } from './clusters.js';

const kubeconfig = process.env.SLIPWAY_E2E_KUBECONFIG;
interface Context {
  client: KubeClient;
  children: Children;
  informers: Informer<KubeObject>[];
  clusters: PostgresClusters;
}

const REPLICATION_PASSWORD = 'of-the-reader-of-changes';
const REGION = 'ap-south';
const SHARED = `shared-${REGION}`;
const passwords = { owner: 'owner-password', authenticator: 'authenticator-password', authAdmin: 'auth-password' };

function siteForTests(change: (settings: { images: Record<string, string> }) => void = () => {}): Site {
  const small = { cpu: '25m', memory: '192Mi', storage: '1Gi' };
  const settings = {
    publicUrl: 'http://slipway.test',
    images: {} as Record<string, string>,
    sharedDatabase: small,
    plans: { pro: { database: small } },
  };
  change(settings);
  return readSite(JSON.stringify(settings));
}

function testOn(path: string): void {
  const test = suite<Context>('Postgres clusters');

  test.before(async (context) => {
    context.client = await clientOf(path);
    await prepare(context.client);
    Object.assign(context, await watching(context.client));
    context.clusters = clustersOf(context, siteForTests());
  });
  test.after(async ({ client, clusters, informers }) => {
    await clusters.close();
    await Promise.all(informers.map((informer) => informer.close()));
    await Promise.all([removeShared(client), ...OWN.map((ref) => removeOwn(client, ref))]);
    await client.close();
  });

  test('projects of a region share a cluster that is made for the first of them, each with its own database', async (context) => {
    const { clusters } = context;
    const first = request('ea-first', 'free');
    const second = request('ea-second', 'starter');
    const outcomes = await Promise.all([first, second].map((asked) => settled(() => clusters.ensure(asked))));
    assert.equal(
      outcomes.map(({ state }) => state),
      ['ready', 'ready'],
    );
    assert.is(clusters.address(first.project).host, `${SHARED}.${DATA_NAMESPACE}.svc`);
    for (const { project } of [first, second])
      assert.is(await asOwner(context, SHARED_PLACE, project.ref, 'SELECT 1'), 1);
    assert.match(
      await failure(asOwner(context, SHARED_PLACE, 'ea-first', 'SELECT 1', databaseOf('ea-second'))),
      /42501/,
    );
  });

  test('who may enter what: owners no platform database, the reader of changes a project’s alone, nobody the whole log', async (context) => {
    const to = (user: string, password: string, more: pg.ClientConfig) =>
      failure(query(context, SHARED_PLACE, { user, password, ...more }, 'SELECT 1'));
    const owner = [ownerRole('ea-first'), passwords.owner] as const;
    for (const database of ['postgres', 'template1']) assert.match(await to(...owner, { database }), /28000/, database);
    assert.match(await to(ownerRole('ea-first'), 'another', { database: databaseOf('ea-first') }), /28P01/);
    const reader = [REPLICATION_ROLE, REPLICATION_PASSWORD] as const;
    assert.match(await to(...reader, { database: 'postgres' }), /28000/);
    assert.match(await to(...reader, { replication: 'true' } as pg.ClientConfig), /28000/);
    const config = { user: reader[0], password: reader[1], database: databaseOf('ea-first'), replication: 'database' };
    const system = await query(context, SHARED_PLACE, config as pg.ClientConfig, 'IDENTIFY_SYSTEM');
    assert.is(system.dbname, databaseOf('ea-first'));
  });

  test('a pro project has a Postgres of its own, for logical replication and of the size of its plan', async (context) => {
    const asked = request('ea-own', 'pro', await newProject(context.client, 'ea-own', 'pro'));
    const begun = performance.now();
    const outcome = await settled(() => context.clusters.ensure(asked));
    console.log(`# a Postgres of its own took connections after ${Math.round(performance.now() - begun)} ms`);
    assert.equal(outcome, { state: 'ready', value: undefined });
    assert.is(context.clusters.address(asked.project).host, 'postgres.p-ea-own.svc');
    const place = OWN_PLACE('ea-own');
    const shown = await asOwner(
      context,
      place,
      'ea-own',
      `SELECT current_setting('wal_level') || ' ' || current_setting('shared_buffers')`,
    );
    assert.is(shown, 'logical 48MB');
    const [pod] = await podsOf(context.client, place);
    assert.is(pod?.metadata.labels?.[LABEL_PROJECT], 'ea-own');
    assert.not.match(JSON.stringify(pod?.spec), new RegExp(await superuserPasswordIn(context.client, place)));
  });

  test('each of its objects that is edited or deleted comes back as it was, with its data, and is named', async (context) => {
    const { client, clusters } = context;
    const asked = { ...request('ea-own', 'pro', await uidOf(client, 'ea-own')), existed: true };
    const place = OWN_PLACE('ea-own');
    await asOwner(context, place, 'ea-own', 'CREATE TABLE IF NOT EXISTS kept AS SELECT 1 AS one');
    const before = await superuserPasswordIn(client, place);
    const apps = `/apis/apps/v1/namespaces/${place.namespace}/statefulsets/postgres`;
    const core = `/api/v1/namespaces/${place.namespace}`;
    const drifts: [string, () => Promise<unknown>][] = [
      ['Secret postgres-superuser, which was deleted', () => client.delete(`${core}/secrets/postgres-superuser`)],
      [
        'Secret postgres-superuser, which was edited',
        () => client.patch(`${core}/secrets/postgres-superuser`, { data: { password: 'eA==' } }),
      ],
      [
        'ConfigMap postgres-settings, which was edited',
        () =>
          client.patch(`${core}/configmaps/postgres-settings`, { data: { 'pg_hba.conf': 'host all all all trust' } }),
      ],
      ['Service postgres, which was deleted', () => client.delete(`${core}/services/postgres`)],
      ['StatefulSet postgres, which was edited', () => client.patch(apps, { spec: { replicas: 0 } })],
      ['StatefulSet postgres, which was deleted', () => client.delete(apps)],
      [
        `the role ${authenticatorRole('ea-own')}, which was changed`,
        () => asSuperuser(context, place, `ALTER ROLE "${authenticatorRole('ea-own')}" NOLOGIN`),
      ],
    ];
    for (const [words, drift] of drifts) {
      await drift();
      const told = new Set<string>();
      await until(async () => {
        const outcome = await clusters.ensure(asked);
        for (const restored of outcome.state === 'ready' ? (outcome.restored ?? []) : []) told.add(restored);
        return told.has(words);
      }, words);
    }
    assert.is(await superuserPasswordIn(client, place), before);
    assert.is(await asOwner(context, place, 'ea-own', 'SELECT one FROM kept'), 1);
  });

  test.run();
}

const OWN = ['ea-own'];
const SHARED_PLACE = { namespace: DATA_NAMESPACE, name: SHARED };
const OWN_PLACE = (ref: string) => ({ namespace: namespaceOf(ref), name: 'postgres' });
type Where = typeof SHARED_PLACE;

const projects = '/apis/slipway.dev/v1alpha1/projects';
const labels = (ref: string) => ({ [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY });

const request = (ref: string, plan: Plan, uid = `uid-${ref}`): DatabaseRequest => {
  const project: EngineProject = {
    ref,
    uid,
    owner: 'owner@example.com',
    region: REGION,
    plan,
    suspended: false,
    placement: undefined,
  };
  return { project, passwords, existed: false };
};

/** The outcome that asking again does not change by itself. */
const settled = (ask: () => Promise<EngineOutcome>) =>
  until(async () => {
    const outcome = await ask();
    if (outcome.state === 'progressing') await new Promise((resolve) => setTimeout(resolve, outcome.lookAgainMs));
    return outcome.state === 'progressing' ? undefined : outcome;
  }, 'the cluster');

async function makeIfMissing(client: KubeClient, path: string, object: object): Promise<void> {
  await client.create<object>(path, object).catch((error) => {
    if (!isConflict(error)) throw error;
  });
}

async function prepare(client: KubeClient): Promise<void> {
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const definition of customResourceDefinitions) await makeIfMissing(client, definitions, definition);
  await until(() => client.get(projects).catch(() => undefined), 'the CRDs to be served');
  for (const name of [SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
    await makeIfMissing(client, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
}

/** With its namespace, in which the same pods may run as in those that the operator makes. */
async function newProject(client: KubeClient, ref: string, plan: Plan): Promise<string> {
  const project = { apiVersion: 'slipway.dev/v1alpha1', kind: 'Project', metadata: { name: ref } };
  await makeIfMissing(client, projects, { ...project, spec: { owner: 'owner@example.com', region: REGION, plan } });
  const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  const metadata = { name: namespaceOf(ref), labels: { ...labels(ref), ...restricted } };
  await makeIfMissing(client, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  return uidOf(client, ref);
}

const uidOf = async (client: KubeClient, ref: string) =>
  (await client.get<Project>(`${projects}/${ref}`)).metadata.uid as string;

async function watching(client: KubeClient): Promise<Pick<Context, 'children' | 'informers'>> {
  const shared = { client, metrics: new Metrics(), log: silentLog };
  const labelled = { ...shared, labelSelector: LABEL_PROJECT };
  const namespaces = new Informer<KubeObject>({ ...labelled, resource: 'namespaces', path: '/api/v1/namespaces' });
  const secrets = new Informer<KubeObject>({ ...labelled, resource: 'secrets', path: '/api/v1/secrets' });
  const children = new Children({ ...shared, namespaces, secrets });
  const informers = [namespaces, secrets, ...children.informers()];
  await Promise.all(informers.map((informer) => informer.start()));
  return { children, informers };
}

const clustersOf = ({ client, children }: Pick<Context, 'client' | 'children'>, site: Site) =>
  new PostgresClusters({
    site,
    client,
    children,
    replicationPassword: async () => REPLICATION_PASSWORD,
    log: silentLog,
  });

type Row = Record<string, unknown>;

async function query(
  { client }: Context,
  { namespace, name }: Where,
  login: pg.ClientConfig,
  sql: string,
): Promise<Row> {
  const path = `/api/v1/namespaces/${namespace}/services/${name}`;
  const { spec } = await client.get<KubeObject & { spec: { clusterIP: string } }>(path);
  const session = new pg.Client({ host: spec.clusterIP, port: 5432, ...login });
  session.on('error', () => {});
  try {
    await session.connect();
    return (await session.query(sql)).rows[0] ?? {};
  } finally {
    await session.end().catch(() => {});
  }
}

const asOwner = async (context: Context, place: Where, ref: string, sql: string, database = databaseOf(ref)) =>
  Object.values(await query(context, place, { user: ownerRole(ref), password: passwords.owner, database }, sql))[0];

const asSuperuser = async (context: Context, place: Where, sql: string) =>
  query(
    context,
    place,
    { user: 'slipway', password: await superuserPasswordIn(context.client, place), database: 'postgres' },
    sql,
  );

const failure = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'it was let in',
    (error) => String(error.code),
  );

async function superuserPasswordIn(client: KubeClient, { namespace, name }: Where): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/secrets/${name}-superuser`;
  const { data } = await client.get<KubeObject & { data: Record<string, string> }>(path);
  return Buffer.from(data.password as string, 'base64').toString();
}

async function podsOf(client: KubeClient, { namespace, name }: Where): Promise<(KubeObject & { spec: object })[]> {
  const query = { labelSelector: `slipway.dev/cluster=${name}` };
  return (await client.get<{ items: (KubeObject & { spec: object })[] }>(`/api/v1/namespaces/${namespace}/pods`, query))
    .items;
}

async function removeShared(client: KubeClient): Promise<void> {
  const core = `/api/v1/namespaces/${DATA_NAMESPACE}`;
  await deleteAndWait(client, `/apis/apps/v1/namespaces/${DATA_NAMESPACE}/statefulsets/${SHARED}`);
  await Promise.all(
    [`services/${SHARED}`, `secrets/${SHARED}-superuser`, `configmaps/${SHARED}-settings`].map((path) =>
      deleteAndWait(client, `${core}/${path}`),
    ),
  );
  await deleteAndWait(client, `${core}/persistentvolumeclaims/data-${SHARED}-0`);
}

async function removeOwn(client: KubeClient, ref: string): Promise<void> {
  await deleteAndWait(client, `/api/v1/namespaces/${namespaceOf(ref)}`);
  await deleteAndWait(client, `${projects}/${ref}`);
}

if (kubeconfig) testOn(kubeconfig);
else console.log('# skipped: no cluster; SLIPWAY_E2E_KUBECONFIG names none');
