/**
 * Tests drift of a healthy project, on a real Kubernetes with a running operator. Each object is deleted and edited,
 * and must be restored. The Project's status and an Event must report it.
 *
 * SLIPWAY_E2E_KUBECONFIG names the cluster, which has the images of auth and rest. If the cluster has an installed
 * operator, the test uses it; otherwise it starts its own.
 */

import { createHmac } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { API_VERSION, type Project } from '@slipway/crds';
import {
  authenticatorRole,
  DATA_NAMESPACE,
  namespaceOf,
  PROGRAMS,
  readSite,
  SECRETS,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/installation';
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { plainText, type Secret } from '../../controllers/project/resources.js';
import { type Operator, startOperator } from '../../index.js';
import { clientOf, deleteAndWait } from '../../testing.js';
import { clusterKubeconfig, prepareCluster, removeShared, SKIPPED } from './cluster.testing.js';

const REF = 'eb-put-back';
const REGION = 'eu-central';
const PROJECT = `/apis/${API_VERSION}/projects/${REF}`;
const core = (path: string) => `/api/v1/namespaces/${namespaceOf(REF)}/${path}`;
const apps = (path: string) => `/apis/apps/v1/namespaces/${namespaceOf(REF)}/${path}`;
const networking = (path: string, namespace = namespaceOf(REF)) =>
  `/apis/networking.k8s.io/v1/namespaces/${namespace}/${path}`;

const site = readSite(
  JSON.stringify({
    publicUrl: 'http://slipway.test:18080',
    images: { auth: 'slipway/auth:dev', rest: 'slipway/rest:dev' },
    sharedDatabase: { cpu: '25m', memory: '192Mi', storage: '1Gi' },
    plans: { starter: { placement: 'deployments' } },
  }),
);

interface Context {
  client: KubeClient;
  dataplane: Server;
  /** Undefined: an operator is installed. */
  operator: Operator | undefined;
}

interface Drift {
  /** The condition that reports the drift, and the object that it names. */
  condition: string;
  object: string;
  path: string;
  edit: object;
  isPutBack?: (now: KubeObject, before: KubeObject) => boolean;
}

const STEADY_MS = 1_500;

const DRIFTS: readonly Drift[] = [
  {
    condition: 'AuthReady',
    object: 'Deployment auth',
    path: apps('deployments/auth'),
    edit: {
      spec: { replicas: 0, template: { spec: { containers: [{ name: 'auth', image: 'slipway.test/other' }] } } },
    },
  },
  {
    condition: 'RestReady',
    object: 'Deployment rest',
    path: apps('deployments/rest'),
    edit: { spec: { template: { spec: { automountServiceAccountToken: true } } } },
  },
  {
    condition: 'AuthReady',
    object: 'Service auth',
    path: core('services/auth'),
    edit: { spec: { selector: { app: 'another' } } },
  },
  {
    condition: 'RestReady',
    object: 'Secret rest-environment',
    path: core('secrets/rest-environment'),
    edit: { data: { PGRST_DB_URI: 'eA==' } },
  },
  {
    condition: 'DatabaseReady',
    object: `Secret ${SECRETS.database.name}`,
    path: core(`secrets/${SECRETS.database.name}`),
    edit: { data: { [SECRETS.database.host]: Buffer.from('elsewhere.test').toString('base64') } },
  },
  {
    condition: 'KeysReady',
    object: `Secret ${SECRETS.keys.name}`,
    path: core(`secrets/${SECRETS.keys.name}`),
    edit: { data: { [SECRETS.keys.anonKey]: 'eA==' } },
    // A lost key is signed again, with another time in it.
    isPutBack: isSignedAgain,
  },
  {
    condition: 'RouteReady',
    object: `Ingress ${namespaceOf(REF)}`,
    path: networking(`ingresses/${namespaceOf(REF)}`, SYSTEM_NAMESPACE),
    edit: { spec: { rules: [{ host: 'elsewhere.test' }] } },
  },
  ...['default-deny', 'services-to-postgres'].map((name) => ({
    condition: 'IsolationReady',
    object: `NetworkPolicy ${name}`,
    path: networking(`networkpolicies/${name}`),
    edit: { spec: { ingress: [{}], policyTypes: ['Ingress', 'Egress'] } },
  })),
  {
    condition: 'IsolationReady',
    object: 'ResourceQuota project',
    path: core('resourcequotas/project'),
    edit: { spec: { hard: { pods: '1000' } } },
  },
  {
    condition: 'IsolationReady',
    object: 'LimitRange project',
    path: core('limitranges/project'),
    edit: { spec: { limits: [{ type: 'Container', default: { memory: '8Gi' } }] } },
  },
];

function testOn(kubeconfig: string): void {
  const test = suite<Context>('what others do to a healthy project');

  test.before(async (context) => {
    context.client = await clientOf(kubeconfig);
    await prepareCluster(context.client);
    // A substitute for the data plane: services in the project's own pods are probed there.
    context.dataplane = createServer((_, response) => response.end('{}'));
    await new Promise<void>((resolve) => context.dataplane.listen(0, '127.0.0.1', resolve));
    const { port } = context.dataplane.address() as AddressInfo;
    const settings = {
      kubeconfig,
      listen: '127.0.0.1:0',
      dataplaneUrl: `http://127.0.0.1:${port}`,
      logLevel: 'silent',
    };
    if (!(await isInstalled(context.client))) context.operator = await startOperator({ ...settings, site });
    await context.client.create<object>(`/apis/${API_VERSION}/projects`, {
      apiVersion: API_VERSION,
      kind: 'Project',
      metadata: { name: REF },
      spec: { owner: 'put-back@example.com', plan: 'starter', region: REGION },
    });
    await healthy(context.client);
  });
  test.after(async ({ client, dataplane, operator }) => {
    await deleteAndWait(client, PROJECT);
    await operator?.close();
    if (operator) await removeShared(client, REGION);
    dataplane.closeAllConnections();
    dataplane.close();
    await client.close();
  });

  for (const { condition, object, path, edit, isPutBack = isAsItWas } of DRIFTS) {
    test(`${object} is restored after an edit, and the status reports it`, async ({ client }) => {
      await steady(client);
      const before = await client.get<KubeObject>(path);
      await client.patch(path, edit);
      await told(client, condition, `${object}, which was edited`);
      await until(async () => isPutBack(await client.get<KubeObject>(path), before), `${object} to be as it was`);
      await healthy(client);
    });

    test(`${object} is restored after a deletion, and the status reports it`, async ({ client }) => {
      await steady(client);
      await client.delete(path);
      await told(client, condition, `${object}, which was deleted`);
      await client.get(path);
      await healthy(client);
    });
  }

  test('Events report only the first repairs, because their number per object is limited', async ({ client }) => {
    const query = { fieldSelector: `involvedObject.name=${REF},reason=Drifted` };
    const { items } = await client.get<{ items: { message: string }[] }>('/api/v1/namespaces/default/events', query);
    assert.ok(items.some(({ message }) => message.includes('Deployment auth, which was edited')));
  });

  test('a closed role of the database accepts logins again, and the status reports it', async ({ client }) => {
    const known = await asSuperuser(client, `SELECT database_id FROM slipway.databases WHERE ref = '${REF}'`);
    const role = authenticatorRole(known.rows[0].database_id);
    await asSuperuser(client, `ALTER ROLE "${role}" NOLOGIN`);
    await told(client, 'DatabaseReady', `the role ${role}, which was changed`);
    const { rows } = await asSuperuser(client, `SELECT rolcanlogin FROM pg_roles WHERE rolname = '${role}'`);
    assert.equal(rows, [{ rolcanlogin: true }]);
  });

  test.run();
}

const isInstalled = (client: KubeClient) =>
  client
    .get<KubeObject & { spec: { replicas: number } }>(
      `/apis/apps/v1/namespaces/${SYSTEM_NAMESPACE}/deployments/${PROGRAMS.operator}`,
    )
    .then(
      ({ spec }) => spec.replicas > 0,
      (error) => {
        if (isNotFound(error)) return false;
        throw error;
      },
    );

/** Waits for the condition, and for an Event on the Project. */
const told = (client: KubeClient, condition: string, words: string) =>
  until(async () => {
    const { status } = await client.get<Project>(PROJECT);
    const found = status?.conditions?.find(({ type }) => type === condition);
    return found?.reason === 'Restored' && found.message.includes(words);
  }, words);

/**
 * Waits until the Project is ready in all its parts for a while: a part that is not ready is not reported as changed by
 * others.
 */
const steady = (client: KubeClient) =>
  until(async () => {
    const before = await client.get<Project>(PROJECT);
    if (before.status?.conditions?.some(({ status }) => status !== 'True')) return false;
    await new Promise((resolve) => setTimeout(resolve, STEADY_MS));
    const after = await client.get<Project>(PROJECT);
    return after.status?.phase === 'healthy' && after.metadata.resourceVersion === before.metadata.resourceVersion;
  }, `${REF} to be steady`);

const healthy = (client: KubeClient) =>
  until(async () => (await client.get<Project>(PROJECT)).status?.phase === 'healthy', `${REF} to be healthy`);

const isAsItWas = (now: KubeObject, before: KubeObject) =>
  JSON.stringify(substance(now)) === JSON.stringify(substance(before));

/** True if the key is signed again. Compares the secret that signed the key, because that stays. */
function isSignedAgain(now: KubeObject, before: KubeObject): boolean {
  const [held, was] = [now, before].map((object) => plainText(object as Secret)) as [
    Record<string, string>,
    Record<string, string>,
  ];
  const { keys } = SECRETS;
  const [text, signature] = (held[keys.anonKey] ?? '').split(/\.(?=[^.]*$)/) as [string, string | undefined];
  const expected = createHmac('sha256', held[keys.jwtSecret] as string)
    .update(text)
    .digest('base64url');
  return held[keys.jwtSecret] === was[keys.jwtSecret] && signature === expected;
}

function substance({ metadata, ...rest }: KubeObject & { status?: unknown; spec?: object }): unknown {
  const { status: _status, ...substantial } = rest;
  return { labels: metadata.labels, ...substantial };
}

async function asSuperuser(client: KubeClient, sql: string): Promise<pg.QueryResult> {
  const place = `/api/v1/namespaces/${DATA_NAMESPACE}`;
  const name = sharedClusterOf(REGION);
  const secret = await client.get<KubeObject & { data: Record<string, string> }>(`${place}/secrets/${name}-superuser`);
  const service = await client.get<KubeObject & { spec: { clusterIP: string } }>(`${place}/services/${name}`);
  const text = (key: string) => Buffer.from(secret.data[key] as string, 'base64').toString();
  const session = new pg.Client({
    host: service.spec.clusterIP,
    user: text('username'),
    password: text('password'),
    database: 'postgres',
  });
  await session.connect();
  try {
    return await session.query(sql);
  } finally {
    await session.end();
  }
}

if (clusterKubeconfig) testOn(clusterKubeconfig);
else console.log(SKIPPED);
