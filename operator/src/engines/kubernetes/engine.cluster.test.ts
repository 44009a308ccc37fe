/** The Kubernetes engine on a real cluster: what every engine must do, and what only one of a cluster has to say. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DATA_NAMESPACE, databaseOf, namespaceOf, readSite, SECRETS, type Site, sharedClusterOf } from '@slipway/crds';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { KubeClient, KubeObject } from '../../runtime/kube.js';
import { clientOf, silentLog, until } from '../../testing.js';
import type { EngineOutcome, EngineProject } from '../engine.js';
import { engineSuite, projectNamed } from '../engine.suite.js';
import type { Children } from './children/children.js';
import {
  clusterKubeconfig,
  makeIfMissing,
  newProject,
  prepareCluster,
  removeProject,
  removeShared,
  SKIPPED,
  watchCluster,
} from './cluster.testing.js';
import { KubernetesEngine } from './engine.js';
import { Rollout } from './rollout/rollout.js';

const REGION = 'us-east';
const SHARED = sharedClusterOf(REGION);
const small = { cpu: '25m', memory: '192Mi', storage: '1Gi' };

const siteForTests = (change: object = {}): Site =>
  readSite(
    JSON.stringify({
      publicUrl: 'http://slipway.test',
      ingress: { kind: 'none' },
      sharedDatabase: small,
      plans: { free: { placement: 'pooled' } },
      ...change,
    }),
  );

/**
 * In the data plane's place, so that what it answers is in the test's hand: projects `silent` and `eb-silent` are not
 * known to it.
 */
async function startAnswering() {
  const server = createServer((request, response) => {
    response.writeHead(/^\/p\/(eb-)?silent\//.test(request.url ?? '') ? 404 : 200).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

async function startEngine(client: KubeClient, site: Site) {
  const [watched, dataplane] = [await watchCluster(client), await startAnswering()];
  const { children } = watched;
  const rollout = new Rollout(children, site);
  const engine = new KubernetesEngine({
    site,
    client,
    children,
    rollout,
    dataplaneUrl: dataplane.url,
    replicationPassword: async () => 'of-the-reader-of-changes',
    onDatabaseChange: () => {},
    log: silentLog,
  });
  const close = async () => {
    rollout.close();
    await engine.close();
    await watched.close();
    dataplane.close();
  };
  return { engine, children, close };
}

const sharedSuperuser = async (client: KubeClient, host: string): Promise<pg.ClientConfig> => {
  const path = `/api/v1/namespaces/${DATA_NAMESPACE}/secrets/${SHARED}-superuser`;
  const { data } = await client.get<KubeObject & { data: Record<string, string> }>(path);
  const text = (key: string) => Buffer.from(data[key] as string, 'base64').toString();
  return { host, port: 5432, user: text('username'), password: text('password'), database: 'postgres' };
};

async function hostOfShared(client: KubeClient): Promise<string> {
  const path = `/api/v1/namespaces/${DATA_NAMESPACE}/services/${SHARED}`;
  return (await client.get<KubeObject & { spec: { clusterIP: string } }>(path)).spec.clusterIP;
}

const untilReady = (ask: () => Promise<EngineOutcome>) =>
  until(async () => (await ask()).state === 'ready', 'the shared Postgres');

function asEveryEngine(path: string): void {
  let stop = async () => {};
  const start = async () => {
    const client = await clientOf(path);
    await prepareCluster(client);
    const { engine, close } = await startEngine(client, siteForTests());
    const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };
    const first = { project: projectNamed('first', REGION), databaseId: 'first', passwords, existed: false };
    await untilReady(() => engine.ensureDatabase(first));
    const host = await hostOfShared(client);
    const admin = new pg.Pool({ ...(await sharedSuperuser(client, host)), max: 1 });
    admin.on('error', () => {});
    stop = async () => {
      await admin.end();
      await close();
      await removeShared(client, REGION);
      await client.close();
    };
    return {
      engine,
      region: REGION as typeof REGION,
      login: (ref: string, user: string, password: string) =>
        ({ host, port: 5432, user, password, database: databaseOf(ref) }) satisfies pg.ClientConfig,
      leftovers: async (ref: string) => {
        const { rows } = await admin.query(
          `SELECT datname AS name FROM pg_database WHERE datname = '${databaseOf(ref)}'
           UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE '%.${ref}'`,
        );
        return rows.map(({ name }) => name as string);
      },
    };
  };
  engineSuite('Kubernetes engine, as every engine', start, () => stop());
}

interface Context {
  client: KubeClient;
  close: (() => Promise<void>)[];
}

function ofServices(path: string): void {
  const test = suite<Context>('services in pods of their own');
  const made: string[] = [];

  test.before(async (context) => {
    context.client = await clientOf(path);
    context.close = [];
    await prepareCluster(context.client);
  });
  test.after(async ({ client, close }) => {
    await Promise.all(close.map((each) => each()));
    await Promise.all(made.map((ref) => removeProject(client, ref)));
    await client.close();
  });

  /** A project on `starter`, with the Secrets that auth and rest are told of. */
  async function projectOf({ client, close }: Context, ref: string, change: object) {
    made.push(ref);
    const project = await newProject(client, ref, 'starter');
    const { database, keys } = SECRETS;
    const values = {
      [database.name]: {
        [database.host]: 'nowhere.test',
        [database.port]: '5432',
        [database.database]: databaseOf(ref),
      },
      [keys.name]: { [keys.jwtSecret]: 'secret-of-at-least-thirty-two-characters' },
    };
    for (const [name, stringData] of Object.entries(values)) {
      const metadata = { name, labels: { 'slipway.dev/project': ref } };
      const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData };
      await makeIfMissing(client, `/api/v1/namespaces/${namespaceOf(ref)}/secrets`, secret);
    }
    const started = await startEngine(client, siteForTests(change));
    close.push(started.close);
    return { project, ...started };
  }

  const partOf = async (engine: KubernetesEngine, project: EngineProject, condition: string) => {
    const { outcome, parts } = await engine.ensureServices({ project, anonKey: 'key' });
    return { outcome, part: parts.find((part) => part.condition === condition) };
  };
  const failing = (engine: KubernetesEngine, project: EngineProject, reason: string) =>
    until(async () => {
      const { outcome, part } = await partOf(engine, project, 'AuthReady');
      if (part?.outcome.state !== 'failed' || part.outcome.reason !== reason) return undefined;
      return { outcome, message: part.outcome.message };
    }, reason);

  test('an image that is not there is told of the part whose it is, with its name', async (context) => {
    const { engine, project } = await projectOf(context, 'eb-image', { images: { auth: 'slipway.test/none:1' } });
    assert.is((await engine.ensureIsolation(project)).state, 'ready');
    const { outcome, message } = await failing(engine, project, 'ImagePullBackOff');
    assert.match(message, /^the image slipway\.test\/none:1 of auth can not be pulled: /);
    assert.is(outcome.state, 'progressing');
  });

  test('a quota that leaves no room is told in the words of the API server', async (context) => {
    const plans = { starter: { quota: { cpu: '1m' } } };
    const { engine, project } = await projectOf(context, 'eb-quota', { plans });
    assert.is((await engine.ensureIsolation(project)).state, 'ready');
    const { message } = await failing(engine, project, 'QuotaExceeded');
    assert.match(message, /^the API server refuses the pod of auth: .*exceeded quota: project/);
  });

  test('a pod for which no node has room is told', async (context) => {
    const plans = { starter: { auth: { cpu: '500' }, quota: { cpu: '1000' } } };
    const { engine, project } = await projectOf(context, 'eb-room', { plans });
    const { message } = await failing(engine, project, 'Unschedulable');
    assert.match(message, /^no node takes the pod of auth: .*Insufficient cpu/);
  });

  test('a program that ends at once is told with its exit code', async (context) => {
    // Node without a script and without a terminal reads its program from an empty input, as user 1000, and is done.
    const { engine, project } = await projectOf(context, 'eb-ends', {
      images: { auth: 'node:24-bookworm-slim', rest: 'node:24-bookworm-slim' },
    });
    const { message } = await failing(engine, project, 'CrashLoopBackOff');
    assert.match(message, /^auth ends again and again, last with exit code 0/);
  });

  test('in the pool a project has no pods, and those that it had go once nobody is led to them', async (context) => {
    const { engine, project, children } = await projectOf(context, 'eb-image', {
      images: { auth: 'slipway.test/none:1' },
    });
    await engine.ensureIsolation(project);
    await engine.ensureServices({ project, anonKey: 'key' });
    const pooled = await startEngine(context.client, siteForTests({ plans: { starter: { placement: 'pooled' } } }));
    context.close.push(pooled.close);
    const leaving: EngineProject = { ...project, placement: 'deployments' };
    await pooled.engine.ensureIsolation(leaving);
    const moving = await pooled.engine.ensureServices({ project: leaving, anonKey: 'key' });
    assert.is(moving.placement, 'pooled');
    assert.ok(moving.outcome.state === 'ready' && moving.outcome.lookAgainMs);
    assert.ok(children.get('Deployment', namespaceOf('eb-image'), 'auth'));
    assert.ok(pooled.children.get('NetworkPolicy', namespaceOf('eb-image'), 'auth-from-gateway'));
    const moved: EngineProject = { ...project, placement: 'pooled' };
    await pooled.engine.ensureIsolation(moved);
    await pooled.engine.ensureServices({ project: moved, anonKey: 'key' });
    await until(() => nothingOf(children, 'eb-image'), 'its pods to go');
    const isClosed = () => !children.get('NetworkPolicy', namespaceOf('eb-image'), 'auth-from-gateway');
    await until(isClosed, 'what led to its pods to go');
  });

  test('a project whose pods do not answer, or stand still, is led to the pool all the same', async (context) => {
    const plans = { starter: { placement: 'pooled' } };
    const { engine, project } = await projectOf(context, 'eb-silent', { plans });
    const leaving: EngineProject = { ...project, placement: 'deployments' };
    const silent = await engine.ensureServices({ project: leaving, anonKey: 'key' });
    assert.is(silent.outcome.state, 'progressing');
    assert.is(silent.placement, 'pooled');
    const suspended = await engine.ensureServices({ project: { ...leaving, suspended: true }, anonKey: 'key' });
    assert.is(suspended.outcome.state, 'ready');
    assert.is(suspended.placement, 'pooled');
  });

  test.run();
}

const nothingOf = (children: Children, ref: string) =>
  ['Deployment', 'Service', 'Pod'].every((kind) => children.list(kind, ref).length === 0);

if (clusterKubeconfig) {
  asEveryEngine(clusterKubeconfig);
  ofServices(clusterKubeconfig);
} else console.log(SKIPPED);
