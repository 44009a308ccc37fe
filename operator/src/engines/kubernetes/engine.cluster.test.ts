/**
 * Tests the Kubernetes engine on a real cluster: the tests of every engine, and tests of outcomes that only a cluster
 * has.
 */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  DATA_NAMESPACE,
  databaseOf,
  namespaceOf,
  readSite,
  SECRETS,
  type Site,
  sharedClusterOf,
} from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineOutcome, EngineProject, ProjectServices } from '../../capabilities/index.js';
import { clientOf, silentLog } from '../../testing.js';
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
import { ClusterServices } from './cluster-services.js';
import { namespaceIsolation } from './isolation/isolation.js';
import { PostgresClusters } from './postgres-cluster/clusters.js';
import { PullSecrets } from './pull-secrets.js';
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
 * Starts a substitute for the data plane, so that the test decides the responses. Projects `silent` and `eb-silent` are
 * unknown to it.
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
  const databases = new PostgresClusters({
    site,
    client,
    children,
    replicationPassword: async () => 'of-the-reader-of-changes',
    onChange: () => {},
    log: silentLog,
  });
  const services = new ClusterServices({ site, client, children, rollout, dataplaneUrl: dataplane.url });
  const isolation = namespaceIsolation(children, site, new PullSecrets(client, children, site.images.pullSecrets));
  const close = async () => {
    rollout.close();
    await services.close();
    await databases.close();
    await watched.close();
    dataplane.close();
  };
  const isolate = (project: EngineProject) => isolation.ensure(project, databases.addressOf(project).host);
  return { databases, services, isolate, children, close };
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
    const { databases, services, close } = await startEngine(client, siteForTests());
    const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };
    const first = { project: projectNamed('first', REGION), databaseId: 'first', passwords, existed: false };
    await untilReady(() => databases.ensure(first));
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
      databases,
      services,
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

  /** Creates a project on `starter`, with the Secrets of auth and rest. */
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

  const partOf = async (services: ProjectServices, project: EngineProject, condition: string) => {
    const { outcome, parts } = await services.ensure({ project, anonKey: 'key' });
    return { outcome, part: parts.find((part) => part.condition === condition) };
  };
  const failing = (services: ProjectServices, project: EngineProject, reason: string) =>
    until(async () => {
      const { outcome, part } = await partOf(services, project, 'AuthReady');
      if (part?.outcome.state !== 'failed' || part.outcome.reason !== reason) return undefined;
      return { outcome, message: part.outcome.message };
    }, reason);

  test('a missing image is reported by its part, with the image’s name', async (context) => {
    const { services, isolate, project } = await projectOf(context, 'eb-image', {
      images: { auth: 'slipway.test/none:1' },
    });
    assert.is((await isolate(project)).state, 'ready');
    const { outcome, message } = await failing(services, project, 'ImagePullBackOff');
    assert.match(message, /^the image slipway\.test\/none:1 of auth can not be pulled: /);
    assert.is(outcome.state, 'progressing');
  });

  test('a quota that leaves no room for a pod is reported in the words of the API server', async (context) => {
    const plans = { starter: { quota: { cpu: '1m' } } };
    const { services, isolate, project } = await projectOf(context, 'eb-quota', { plans });
    assert.is((await isolate(project)).state, 'ready');
    const { message } = await failing(services, project, 'QuotaExceeded');
    assert.match(message, /^the API server refuses the pod of auth: .*exceeded quota: project/);
  });

  test('a pod is reported when no node has room for it', async (context) => {
    const plans = { starter: { auth: { cpu: '500' }, quota: { cpu: '1000' } } };
    const { services, project } = await projectOf(context, 'eb-room', { plans });
    const { message } = await failing(services, project, 'Unschedulable');
    assert.match(message, /^no node accepts the pod of auth: .*Insufficient cpu/);
  });

  test('a program is reported with its exit code when it exits at once', async (context) => {
    // Node without a script and without a terminal reads its program from an empty input, as user 1000, and exits.
    const { services, project } = await projectOf(context, 'eb-ends', {
      images: { auth: 'node:24-bookworm-slim', rest: 'node:24-bookworm-slim' },
    });
    const { message } = await failing(services, project, 'CrashLoopBackOff');
    assert.match(message, /^auth keeps exiting, last with exit code 0/);
  });

  test('a pooled project has no pods, and its former pods are deleted once they get no requests', async (context) => {
    const { services, isolate, project, children } = await projectOf(context, 'eb-image', {
      images: { auth: 'slipway.test/none:1' },
    });
    await isolate(project);
    await services.ensure({ project, anonKey: 'key' });
    const pooled = await startEngine(context.client, siteForTests({ plans: { starter: { placement: 'pooled' } } }));
    context.close.push(pooled.close);
    const leaving: EngineProject = { ...project, placement: 'deployments' };
    await pooled.isolate(leaving);
    const moving = await pooled.services.ensure({ project: leaving, anonKey: 'key' });
    assert.is(moving.placement, 'pooled');
    assert.ok(moving.outcome.state === 'ready' && moving.outcome.lookAgainMs);
    assert.ok(children.get('Deployment', namespaceOf('eb-image'), 'auth'));
    assert.ok(pooled.children.get('NetworkPolicy', namespaceOf('eb-image'), 'auth-from-gateway'));
    const moved: EngineProject = { ...project, placement: 'pooled' };
    await pooled.isolate(moved);
    await pooled.services.ensure({ project: moved, anonKey: 'key' });
    await until(() => nothingOf(children, 'eb-image'), 'its pods to go');
    const isClosed = () => !children.get('NetworkPolicy', namespaceOf('eb-image'), 'auth-from-gateway');
    await until(isClosed, 'the Services of its pods to be deleted');
  });

  test('a removal stops only the project’s own pods, before its namespace is deleted', async (context) => {
    const { databases, services, isolate, project, children } = await projectOf(context, 'eb-removed', {
      images: { auth: 'slipway.test/none:1' },
    });
    assert.is((await isolate(project)).state, 'ready');
    await failing(services, project, 'ImagePullBackOff');
    const replicas = async () => {
      const path = `/apis/apps/v1/namespaces/${namespaceOf(project.ref)}/deployments`;
      const { items } = await context.client.get<{ items: { spec: { replicas: number } }[] }>(path);
      return items.map(({ spec }) => spec.replicas);
    };
    const claim = { databaseId: project.ref, passwords: undefined, existed: false };
    const remove = async (uid: string) => {
      await services.remove({ ref: project.ref, uid });
      return databases.remove({ ...project, ...claim, uid, region: REGION });
    };
    assert.is((await remove('of-another-project')).state, 'ready');
    assert.equal(await replicas(), [1, 1]);
    assert.is((await remove(project.uid)).state, 'ready');
    assert.equal(await replicas(), [0, 0]);
    await until(() => children.list('Pod', project.ref).length === 0, 'the pods to be deleted');
  });

  test('a project moves to the pool even if its pods do not respond, or are suspended', async (context) => {
    const plans = { starter: { placement: 'pooled' } };
    const { services, project } = await projectOf(context, 'eb-silent', { plans });
    const leaving: EngineProject = { ...project, placement: 'deployments' };
    const silent = await services.ensure({ project: leaving, anonKey: 'key' });
    assert.is(silent.outcome.state, 'progressing');
    assert.is(silent.placement, 'pooled');
    const suspended = await services.ensure({ project: { ...leaving, suspended: true }, anonKey: 'key' });
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
