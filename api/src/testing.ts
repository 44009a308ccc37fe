/**
 * A test API on its own Kubernetes API server and Postgres. No operator runs here: tests write its results with
 * `operator`; the end-to-end suite runs the real one.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTestApiServer } from '@slipway/apiserver/testing.js';
import {
  API_VERSION,
  customResourceDefinitions,
  type Project,
  type ProjectSpec,
  type ProjectStatus,
} from '@slipway/crds';
import {
  API_ROLES,
  authenticatorRole,
  LABEL_PROJECT,
  namespaceOf,
  OPERATOR_LEASE,
  ownerRole,
  SECRETS,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import pg from 'pg';
import { type ApiSettings, startApi } from './index.js';
import { PROJECTS } from './kubernetes/client.js';
import { UNRESTRICTED } from './settings/settings.js';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint: a test says itself what it expects.
  body: any;
}

export interface CallOptions {
  token?: string | undefined;
  json?: unknown;
  body?: string;
  headers?: Record<string, string>;
  /** Closes the connection when it aborts. */
  signal?: AbortSignal;
}

export type TestApi = Awaited<ReturnType<typeof startTestApi>>;

export async function startTestApi(chosen: Partial<ApiSettings> = {}) {
  const cluster = await startTestApiServer({ crds: customResourceDefinitions });
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-api-'));
  const { host, port, user, password } = cluster.postgres.admin();
  const admin = new pg.Client(cluster.postgres.admin());
  await admin.connect();
  await admin.query('create database platform');
  const settings: ApiSettings = {
    listen: path.join(folder, 'api.sock'),
    publicUrl: 'http://localhost:4000',
    openedServices: {},
    site: undefined,
    dataplaneUrl: 'http://localhost:4000',
    databaseUrl: `postgresql://${user}:${password}@/platform?host=${encodeURIComponent(host)}&port=${port}`,
    kubeconfig: cluster.kubeconfig,
    jwtSecret: 'a secret of the tests, of 32 bytes or more',
    encryptionKeys: { current: 'a', keys: { a: Buffer.alloc(32, 1).toString('base64') } },
    accounts: { registration: { mode: 'open' }, localOnly: true, setupCode: () => undefined, defaults: UNRESTRICTED },
    requestLimits: { perMinute: 0, sparesLoopback: true, sparesLocalAccounts: true },
    logLevel: 'silent',
    ...chosen,
  };
  let api: Awaited<ReturnType<typeof startApi>> | undefined = await startApi(settings);
  const stop = async () => {
    await api?.close();
    api = undefined;
  };
  const client = await KubeClient.connect(await loadKubeConfig(cluster.kubeconfig));
  const platform = new pg.Client({ ...cluster.postgres.admin(), database: 'platform' });
  await platform.connect();
  const agent = new Agent({ keepAlive: false });
  return {
    settings,
    cluster,
    folder,
    admin,
    /** The platform database, with a login as superuser. */
    platform,
    /** Returns the rows of a statement in the platform database. */
    onPlatform: async (sql: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
      (await platform.query(sql, values)).rows,
    operator: operatorOf(client, cluster.postgres.admin()),
    call: (method: string, url: string, options?: CallOptions) => call(agent, settings.listen, method, url, options),
    /** Stops the API, so that a test can start it as a process of its own. */
    stop,
    /** Stops the API and starts it again with the same data. */
    async restart() {
      await stop();
      api = await startApi(settings);
    },
    async close() {
      await stop();
      await admin.end();
      await platform.end();
      await client.close();
      await cluster.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function call(
  agent: Agent,
  socketPath: string,
  method: string,
  url: string,
  options: CallOptions = {},
): Promise<Answer> {
  const { token, json, headers = {}, signal } = options;
  const body = json === undefined ? options.body : JSON.stringify(json);
  const sent = {
    ...(token ? { authorization: `Bearer ${token}` } : {}),
    ...(body === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const outgoing = request({ agent, socketPath, method, path: url, headers: sent, signal }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => {
        const isJson = /json/.test(response.headers['content-type'] ?? '');
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: isJson ? JSON.parse(text) : text,
        });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Writes resources in place of the operator, or of a user of kubectl. */
function operatorOf(client: KubeClient, postgres: pg.ClientConfig) {
  const at = (name: string) => `${PROJECTS}/${name}`;
  const apply = (name: string, spec: ProjectSpec): Promise<Project> =>
    client.create<Project>(PROJECTS, { apiVersion: API_VERSION, kind: 'Project', metadata: { name }, spec });
  const get = (name: string): Promise<Project> => client.get(at(name));
  const patch = (name: string, body: object): Promise<Project> => client.patch(at(name), body);
  const setStatus = (name: string, status: ProjectStatus): Promise<Project> =>
    client.patch(`${at(name)}/status`, { status });
  const remove = (name: string) => client.delete(at(name));

  async function secret(ref: string, name: string, stringData: Record<string, string>) {
    const metadata = { name, namespace: namespaceOf(ref), labels: { [LABEL_PROJECT]: ref } };
    await client.create<object>(secretsOf(ref), { metadata, stringData });
  }

  async function makeAuthenticator(admin: pg.Client, ref: string) {
    const { rows } = await admin.query<{ rolname: string }>('select rolname from pg_roles');
    const missing = API_ROLES.filter((role) => !rows.some(({ rolname }) => rolname === role));
    for (const role of missing) await admin.query(`create role ${role} ${role === 'service_role' ? 'bypassrls' : ''}`);
    const authenticator = `"${authenticatorRole(ref)}"`;
    await admin.query(`create role ${authenticator} login noinherit password 'authenticator'`);
    await admin.query(`grant ${API_ROLES.join(', ')} to ${authenticator} with inherit false`);
    await admin.query(`grant connect on database "p-${ref}" to ${authenticator}`);
    const inside = new pg.Client({ ...postgres, database: `p-${ref}` });
    await inside.connect();
    for (const kind of ['tables', 'sequences', 'routines']) {
      await inside.query(
        `alter default privileges for role "${ownerRole(ref)}" in schema public grant all on ${kind} to service_role`,
      );
    }
    await inside.end();
  }

  /** Creates a project's database with its roles and the grants of service_role. */
  async function provision(ref: string) {
    const { host, port } = postgres;
    const admin = new pg.Client(postgres);
    await admin.connect();
    await admin.query(`create role "${ownerRole(ref)}" login password 'owner'`);
    await admin.query(`create database "p-${ref}" owner "${ownerRole(ref)}"`);
    await admin.query(`revoke connect on database "p-${ref}" from public`);
    await makeAuthenticator(admin, ref);
    await admin.end();
    const metadata = { name: namespaceOf(ref), labels: { [LABEL_PROJECT]: ref } };
    await client.create<object>('/api/v1/namespaces', { metadata }).catch(() => undefined);
    const { keys, database } = SECRETS;
    await secret(ref, keys.name, {
      [keys.jwtSecret]: 'j'.repeat(32),
      [keys.anonKey]: 'anon-key-of-it',
      [keys.serviceRoleKey]: 'service-role-key-of-it',
      [keys.webhookSecret]: 'webhook-secret-of-it',
    });
    await secret(ref, database.name, {
      [database.host]: String(host),
      [database.port]: String(port),
      [database.database]: `p-${ref}`,
      [database.ownerPassword]: 'owner',
      [database.authenticatorPassword]: 'authenticator',
      [database.url]: `postgresql://${ownerRole(ref)}:owner@localhost:4002/p-${ref}`,
    });
    await setStatus(ref, {
      phase: 'healthy',
      message: 'Ready',
      url: `http://localhost:4000/p/${ref}`,
      services: { database: { up: true, status: 'running' }, storage: { up: false, status: 'unavailable' } },
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Provisioned',
          message: 'All parts are up',
          lastTransitionTime: '2026-01-05T09:00:01Z',
        },
      ],
    });
  }

  async function lead(renewTime = new Date()) {
    const namespace = SYSTEM_NAMESPACE;
    await client.create<object>('/api/v1/namespaces', { metadata: { name: namespace } }).catch(() => undefined);
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    // A Lease has microseconds.
    const microseconds = renewTime.toISOString().replace('Z', '000Z');
    const spec = { holderIdentity: 'test', leaseDurationSeconds: 600, renewTime: microseconds };
    await client
      .create<object>(leases, { metadata: { name: OPERATOR_LEASE }, spec })
      .catch(() => client.patch(`${leases}/${OPERATOR_LEASE}`, { spec }));
  }

  return { apply, get, patch, setStatus, remove, secret, provision, lead, client };
}

export const secretsOf = (ref: string) => `/api/v1/namespaces/${namespaceOf(ref)}/secrets`;

let people = 0;
/** Registers a new account and logs it in. */
export async function register(api: Pick<TestApi, 'call'>): Promise<{ email: string; token: string }> {
  people += 1;
  const email = `person${people}@example.com`;
  const { body } = await api.call('POST', '/auth/register', { json: { email, password: 'correct horse' } });
  return { email, token: body.token };
}
