/**
 * Tests Postgres clusters on a real Kubernetes, with its scheduler, volumes and pods. SLIPWAY_E2E_KUBECONFIG names the
 * cluster.
 */

import { type Plan, REGIONS, type Region } from '@slipway/crds';
import {
  ANNOTATION_ADDRESS,
  authenticatorRole,
  DATA_NAMESPACE,
  databaseOf,
  LABEL_PROJECT,
  LABEL_RETAINED,
  namespaceOf,
  ownerRole,
  REPLICATION_ROLE,
  readSite,
  SECRETS,
  type Site,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { DatabaseRequest, EngineOutcome, EngineProject, RemoveRequest } from '../../../capabilities/index.js';
import { clientOf, deleteAndWait, silentLog } from '../../../testing.js';
import { MEMORY_CAPACITY } from '../../postgres/session-watch.js';
import type { Children } from '../children/children.js';
import {
  clusterKubeconfig,
  newProject,
  prepareCluster,
  removeProject,
  removeShared,
  SKIPPED,
  watchCluster,
} from '../cluster.testing.js';
import { markedNamespace } from '../isolation/namespace.js';
import { PullSecrets } from '../pull-secrets.js';
import { PostgresClusters } from './clusters.js';

interface Context {
  client: KubeClient;
  children: Children;
  watched: Awaited<ReturnType<typeof watchCluster>>;
  clusters: PostgresClusters;
}

const REPLICATION_PASSWORD = 'of-the-reader-of-changes';
const REGION = 'ap-south';
const SHARED = `shared-${REGION}`;
const passwords = { owner: 'owner-password', authenticator: 'authenticator-password', authAdmin: 'auth-password' };

function siteForTests(more: object = {}): Site {
  const small = { cpu: '25m', memory: '192Mi', storage: '1Gi' };
  const plans = { pro: { database: small } };
  return readSite(JSON.stringify({ publicUrl: 'http://slipway.test', sharedDatabase: small, plans, ...more }));
}

function testOn(path: string): void {
  const test = suite<Context>('Postgres clusters');

  test.before(async (context) => {
    context.client = await clientOf(path);
    await prepareCluster(context.client);
    context.watched = await watchCluster(context.client);
    context.children = context.watched.children;
    context.clusters = clustersOf(context, siteForTests());
  });
  test.after(async ({ client, clusters, watched }) => {
    await clusters.close();
    await watched.close();
    await Promise.all([removeShared(client, REGION), ...OWN.map((ref) => removeProject(client, ref))]);
    await client.close();
  });

  test('projects of a region have databases in one Postgres cluster, made for the first project', async (context) => {
    const { clusters } = context;
    const first = request(strangers('ea-first', 'free'));
    const second = request(strangers('ea-second', 'starter'));
    const outcomes = await Promise.all([first, second].map((asked) => settled(() => clusters.ensure(asked))));
    assert.equal(
      outcomes.map(({ state }) => state),
      ['ready', 'ready'],
    );
    assert.is(clusters.addressOf(first.project).host, `${SHARED}.${DATA_NAMESPACE}.svc`);
    for (const { project } of [first, second])
      assert.is(await asOwner(context, SHARED_PLACE, project.ref, 'SELECT 1'), 1);
    assert.match(
      await failure(asOwner(context, SHARED_PLACE, 'ea-first', 'SELECT 1', databaseOf('ea-second'))),
      /42501/,
    );
  });

  test('owners and readers of changes enter only projects’ databases, and can’t read the log', async (context) => {
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

  test('a pro project has a Postgres of its own, with logical replication and its plan’s size', async (context) => {
    const asked = request(await newOwn(context.client, 'ea-own'));
    const begun = performance.now();
    const outcome = await settled(() => context.clusters.ensure(asked));
    console.log(`# a Postgres of its own took connections after ${Math.round(performance.now() - begun)} ms`);
    assert.equal(outcome, { state: 'ready', value: undefined });
    assert.is(context.clusters.addressOf(asked.project).host, 'postgres.p-ea-own.svc');
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

  test('the memory of sessions is limited to the container’s, less the server’s shared part', async (context) => {
    const sql = `SELECT ${MEMORY_CAPACITY} AS capacity`;
    const { capacity } = await asSuperuser(context, SHARED_PLACE, sql);
    assert.ok(Number(capacity) > 96 * 2 ** 20 && Number(capacity) <= (192 - 48) * 2 ** 20, `${capacity} bytes`);
  });

  test('a statement that needs more memory than the server has fails, and other sessions continue', async (context) => {
    const started = 'SELECT pg_postmaster_start_time()::text AS at';
    const before = await asSuperuser(context, SHARED_PLACE, started);
    const large = asOwner(context, SHARED_PLACE, 'ea-first', `SELECT length(repeat('x', 300000000))`);
    assert.match(await failure(large), /53200/);
    assert.equal(await asSuperuser(context, SHARED_PLACE, started), before);
  });

  test('each edited or deleted object of a cluster is restored with its data, and reported', async (context) => {
    const { client, clusters } = context;
    const asked = request(await newOwn(client, 'ea-own'), true);
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
        for (const restored of outcome.state === 'failed' ? [] : (outcome.restored ?? [])) told.add(restored);
        return outcome.state === 'ready' && told.has(words);
      }, words);
    }
    assert.is(await superuserPasswordIn(client, place), before);
    assert.is(await asOwner(context, place, 'ea-own', 'SELECT one FROM kept'), 1);
  });

  test('a suspended project has no Postgres server, and has its data when it is resumed', async (context) => {
    const project = await newOwn(context.client, 'ea-own');
    const place = OWN_PLACE('ea-own');
    await asOwner(context, place, 'ea-own', 'CREATE TABLE before AS SELECT 1 AS one');
    const suspended = request({ ...project, suspended: true }, true);
    assert.is((await settled(() => context.clusters.ensure(suspended))).state, 'ready');
    assert.equal(await podsOf(context.client, place), []);
    assert.is((await settled(() => context.clusters.ensure(request(project, true)))).state, 'ready');
    assert.is(await asOwner(context, place, 'ea-own', 'SELECT one FROM before'), 1);
  });

  test('a database stays in its place when the plan changes, and the error names a way to move it', async (context) => {
    const { client, clusters } = context;
    const project = await newProject(client, 'ea-kept', 'starter', REGION);
    const address = clusters.addressOf(project);
    const metadata = {
      name: SECRETS.database.name,
      labels: { [LABEL_PROJECT]: 'ea-kept' },
      annotations: { [ANNOTATION_ADDRESS]: `${address.host}:${address.port}/${databaseOf('ea-kept')}` },
    };
    await client.create<object>(`/api/v1/namespaces/${namespaceOf('ea-kept')}/secrets`, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata,
    });
    assert.is((await settled(() => clusters.ensure(request(project)))).state, 'ready');
    const larger = { ...project, plan: 'pro' as const };
    await until(() => clusters.addressOf(larger).host === address.host, 'the address to be known');
    const outcome = await clusters.ensure(request(larger, true));
    assert.is(outcome.state === 'failed' && outcome.reason, 'DatabaseMoveUnsupported');
    assert.match(outcome.state === 'failed' ? outcome.message : '', /Set spec.plan back.*pg_dump/);
    assert.is(await asOwner(context, SHARED_PLACE, 'ea-kept', 'SELECT 1'), 1);

    // The namespace also records the address, in case that Secret is deleted.
    await context.children.ensure(markedNamespace(project, address.host));
    const isForgotten = () => context.children.get('Secret', namespaceOf('ea-kept'), metadata.name) === undefined;
    await client.delete(`/api/v1/namespaces/${namespaceOf('ea-kept')}/secrets/${metadata.name}`);
    await until(isForgotten, 'the Secret to be deleted');
    assert.is(clusters.addressOf(larger).host, address.host);
  });

  test('a project’s own cluster is found for any plan, even if the record of its place was deleted', async ({
    client,
    clusters,
  }) => {
    const project = await newOwn(client, 'ea-own');
    assert.is(clusters.addressOf({ ...project, plan: 'free' }).host, 'postgres.p-ea-own.svc');
  });

  test('a missing Postgres is reported as lost, and no empty one replaces it', async (context) => {
    const { client, clusters } = context;
    const outcome = await clusters.ensure(request(await newOwn(client, 'ea-lost'), true));
    assert.is(outcome.state === 'failed' && outcome.reason, 'DatabaseLost');
    assert.is(await objectsIn(client, 'ea-lost'), 0);
  });

  test('no object is created beside a CloudNativePG cluster that the operator must not use', async (context) => {
    const { client, clusters } = context;
    const project = await newOwn(client, 'ea-theirs');
    const owner = { apiVersion: 'postgresql.cnpg.io/v1', kind: 'Cluster', name: 'postgres', uid: project.uid };
    await client.create<object>(`/api/v1/namespaces/${namespaceOf('ea-theirs')}/services`, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'postgres', ownerReferences: [owner] },
      spec: { ports: [{ port: 5432 }], selector: { 'cnpg.io/cluster': 'postgres' } },
    });
    for (const existed of [false, true]) {
      const outcome = await clusters.ensure(request(project, existed));
      assert.is(outcome.state === 'failed' && outcome.reason, 'CloudNativePGForbidden');
      assert.match(outcome.state === 'failed' ? outcome.message : '', /apply the component cloudnative-pg/);
    }
    assert.is(await objectsIn(client, 'ea-theirs'), 0);
    const retained = await clusters.remove(removal({ ...project, retain: true }));
    assert.is(retained.state === 'failed' && retained.reason, 'CloudNativePGForbidden', 'its data would go');
  });

  test('the outcome reports why a Postgres does not start: an image, a storage class, a quota', async (context) => {
    const { client } = context;
    const cases = [
      ['ea-image', { images: { postgres: 'slipway.test/no-such-postgres:1' } }, 'ImagePullBackOff', /no-such-postgres/],
      ['ea-class', { storageClass: 'ea-no-such-class' }, 'UnboundClaim', /"ea-no-such-class" not found/],
      ['ea-quota', {}, 'QuotaExceeded', /exceeded quota: none/],
    ] as const;
    const told = cases.map(async ([ref, settings, reason, words]) => {
      const project = await newOwn(client, ref);
      if (ref === 'ea-quota') await forbidPods(client, ref);
      const clusters = clustersOf(context, siteForTests(settings));
      try {
        const message = await until(async () => {
          const outcome = await clusters.ensure(request(project));
          return outcome.state === 'failed' && outcome.reason === reason ? outcome.message : undefined;
        }, reason);
        assert.match(message, words);
      } finally {
        await clusters.close();
      }
    });
    await Promise.all(told);
  });

  test('logins for registries are copied to the namespaces of pods, and a missing login is named', async (context) => {
    const { client, children } = context;
    const logins = (...names: string[]) => new PullSecrets(client, children, names);
    const metadataOf = (name: string) => ({
      name,
      namespace: namespaceOf('ea-kept'),
      labels: { [LABEL_PROJECT]: 'ea-kept' },
    });
    const missing = await logins('ea-missing').ensure(metadataOf);
    assert.is(missing.state === 'failed' && missing.reason, 'PullSecretMissing');
    const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;
    const data = { '.dockerconfigjson': Buffer.from('{"auths":{}}').toString('base64') };
    const type = 'kubernetes.io/dockerconfigjson';
    await deleteAndWait(client, `${path}/ea-registry`);
    await client.create<object>(path, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'ea-registry' },
      type,
      data,
    });
    assert.is((await logins('ea-registry').ensure(metadataOf)).state, 'ready');
    const copy = await client.get<KubeObject & { type: string; data: object }>(
      `/api/v1/namespaces/${namespaceOf('ea-kept')}/secrets/ea-registry`,
    );
    assert.equal([copy.type, copy.data], [type, data]);
    await deleteAndWait(client, `${path}/ea-registry`);
  });

  test('a removal drops the database in the shared cluster, and never creates a cluster', async (context) => {
    const { client, clusters } = context;
    const gone = removal(strangers('ea-second', 'starter'));
    assert.equal(await clusters.remove(gone), { state: 'ready', value: undefined });
    const left = `SELECT count(*)::int AS left FROM pg_database WHERE datname = '${databaseOf('ea-second')}'`;
    assert.equal(await asSuperuser(context, SHARED_PLACE, left), { left: 0 });
    const path = `/apis/apps/v1/namespaces/${DATA_NAMESPACE}/statefulsets`;
    const isThere = (region: Region) =>
      client.get(`${path}/shared-${region}`).then(
        () => true,
        () => false,
      );
    const there = await Promise.all(REGIONS.map(isThere));
    const elsewhere = REGIONS.find((_, index) => !there[index]) as Region;
    assert.equal(await clusters.remove({ ...gone, region: elsewhere }), { state: 'ready', value: undefined });
    assert.not(await isThere(elsewhere));
  });

  test('the namespace of a project’s retained cluster stays, and has no owner from then on', async ({
    client,
    clusters,
  }) => {
    const project = { ...(await newOwn(client, 'ea-own')), retain: true };
    const path = `/api/v1/namespaces/${namespaceOf('ea-own')}`;
    const ownersOfSecret = async () =>
      (await client.get<KubeObject>(`${path}/secrets/postgres-superuser`)).metadata.ownerReferences;
    assert.is((await ownersOfSecret())?.length, 1);
    assert.is((await settled(() => clusters.ensure(request(project, true)))).state, 'ready');
    assert.is(await ownersOfSecret(), undefined, 'before anyone deletes');
    const another = removal({ ...project, uid: 'uid-of-another' });
    assert.is((await clusters.remove(another)).state, 'ready');
    assert.is((await client.get<KubeObject>(path)).metadata.labels?.[LABEL_RETAINED], undefined, 'of another');
    // The state after a deletion that orphans objects, before the operator's removal.
    await client.patch(path, { metadata: { ownerReferences: null } });
    assert.is((await clusters.remove(removal(project))).state, 'ready');
    const { metadata } = await client.get<KubeObject>(path);
    assert.is(metadata.labels?.[LABEL_RETAINED], 'true');
    assert.is(metadata.ownerReferences, undefined);
  });

  test.run();
}

async function forbidPods(client: KubeClient, ref: string): Promise<void> {
  const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'none' }, spec: { hard: { pods: '0' } } };
  const path = `/api/v1/namespaces/${namespaceOf(ref)}/resourcequotas`;
  await client.create<object>(path, quota);
  await until(
    async () => (await client.get<KubeObject & { status: { hard?: object } }>(`${path}/none`)).status.hard,
    'the quota',
  );
}

/** Returns the number of StatefulSets and superusers' Secrets in the namespace. */
async function objectsIn(client: KubeClient, ref: string): Promise<number> {
  const names = async (path: string) =>
    (await client.get<{ items: KubeObject[] }>(path)).items.map(({ metadata }) => metadata.name);
  const sets = await names(`/apis/apps/v1/namespaces/${namespaceOf(ref)}/statefulsets`);
  const secrets = await names(`/api/v1/namespaces/${namespaceOf(ref)}/secrets`);
  return sets.length + secrets.filter((name) => name.endsWith('-superuser')).length;
}

const OWN = ['ea-own', 'ea-kept', 'ea-image', 'ea-class', 'ea-quota', 'ea-lost', 'ea-theirs'];
const newOwn = (client: KubeClient, ref: string) => newProject(client, ref, 'pro', REGION);
const SHARED_PLACE = { namespace: DATA_NAMESPACE, name: SHARED };
const OWN_PLACE = (ref: string) => ({ namespace: namespaceOf(ref), name: 'postgres' });
type Where = typeof SHARED_PLACE;

const strangers = (ref: string, plan: Plan): EngineProject => ({
  ...{ ref, uid: `uid-${ref}`, owner: 'owner@example.com', type: 'shared', region: REGION, plan },
  ...{ suspended: false, retain: false, placement: undefined },
});
const request = (project: EngineProject, existed = false): DatabaseRequest => ({
  ...{ project, passwords, existed },
  databaseId: project.ref,
});

const removal = (project: EngineProject): RemoveRequest => ({
  ...{ ...project, passwords, existed: true },
  databaseId: project.ref,
});

/** Resolves to the first outcome that is not in progress. */
const settled = (ask: () => Promise<EngineOutcome>) =>
  until(async () => {
    const outcome = await ask();
    if (outcome.state === 'progressing') await new Promise((resolve) => setTimeout(resolve, outcome.lookAgainMs));
    return outcome.state === 'progressing' ? undefined : outcome;
  }, 'the cluster');

const clustersOf = ({ client, children }: Pick<Context, 'client' | 'children'>, site: Site) =>
  new PostgresClusters({
    site,
    client,
    children,
    replicationPassword: async () => REPLICATION_PASSWORD,
    onChange: () => {},
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

if (clusterKubeconfig) testOn(clusterKubeconfig);
else console.log(SKIPPED);
