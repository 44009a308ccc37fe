import { API_SECRET, POSTGRES_SECRET, SETUP_SECRET, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes } from '../testing.js';
import { PlatformInstallation } from './installation.js';

const test = suite<{ kubernetes: TestKubernetes; postgres: TestPostgres }>('installation');
const SECRETS_PATH = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;

test.before(async (context) => {
  [context.kubernetes, context.postgres] = await Promise.all([startTestKubernetes(), startTestPostgres()]);
  const metadata = { name: SYSTEM_NAMESPACE };
  await context.kubernetes.client
    .create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata })
    .catch(() => {});
});
test.before.each(async ({ kubernetes: { client } }) => {
  for (const { name } of [POSTGRES_SECRET, API_SECRET, SETUP_SECRET])
    await deleteAndWait(client, `${SECRETS_PATH}/${name}`);
});
test.after(async ({ kubernetes, postgres }) => {
  await postgres.close();
  await kubernetes.close();
});

type Context = Pick<{ kubernetes: TestKubernetes; postgres: TestPostgres }, 'kubernetes' | 'postgres'>;

const urlOf = ({ port }: TestPostgres) => `postgresql://slipway:test-superuser@127.0.0.1:${port}/postgres`;

const put = ({ kubernetes }: Context, name: string, stringData: Record<string, string>) =>
  kubernetes.client.create<object>(SECRETS_PATH, { apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData });

async function held({ kubernetes }: Context, name: string): Promise<Record<string, string>> {
  const { data } = await kubernetes.client.get<KubeObject & { data: Record<string, string> }>(
    `${SECRETS_PATH}/${name}`,
  );
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

const installed = async ({ kubernetes }: Context, work: (installation: PlatformInstallation) => Promise<void>) => {
  const installation = new PlatformInstallation({ client: kubernetes.client, log: silentLog });
  try {
    await work(installation);
  } finally {
    await installation.close();
  }
};

async function answer(connectionString: string, sql: string): Promise<unknown> {
  const client = new pg.Client({ connectionString });
  client.on('error', () => {});
  await client.connect();
  try {
    return Object.values((await client.query(sql)).rows[0])[0];
  } finally {
    await client.end();
  }
}

test('an installation with the site’s Postgres has secrets for the API’s login to its own schema', async (context) => {
  await put(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
  await installed(context, (installation) => installation.start());
  const made = await held(context, API_SECRET.name);
  assert.is(await answer(made[API_SECRET.databaseUrl] as string, 'SELECT current_schema'), 'platform');
  assert.ok((made[API_SECRET.jwtSecret] as string).length >= 32);
  const { current, keys } = JSON.parse(made[API_SECRET.encryptionKeys] as string);
  assert.is(Buffer.from(keys[current], 'base64').length, 32);
  assert.equal(Object.keys(await held(context, POSTGRES_SECRET.name)), ['url']);
});

test('a Secret keeps its existing values, and gets the missing ones', async (context) => {
  await put(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
  await put(context, API_SECRET.name, { [API_SECRET.jwtSecret]: 'a secret of the site, which signs for years' });
  await installed(context, (installation) => installation.start());
  const made = await held(context, API_SECRET.name);
  assert.is(made[API_SECRET.jwtSecret], 'a secret of the site, which signs for years');
  await installed(context, (installation) => installation.start());
  assert.equal(await held(context, API_SECRET.name), made);
  assert.is(await answer(made[API_SECRET.databaseUrl] as string, 'SELECT 1'), 1);
});

test('the setup code of the first administrator is created once, in a Secret of its own', async (context) => {
  await put(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
  await installed(context, (installation) => installation.start());
  const made = await held(context, SETUP_SECRET.name);
  assert.ok((made[SETUP_SECRET.code] as string).length >= 32);
  await installed(context, (installation) => installation.start());
  assert.equal(await held(context, SETUP_SECRET.name), made);
});

test('secrets are created while Postgres is unavailable, and the database is prepared later', async (context) => {
  const later = await startTestPostgres();
  const url = urlOf(later);
  await later.stop();
  await put(context, POSTGRES_SECRET.name, { url });
  await installed(context, async (installation) => {
    let prepared = false;
    const done = installation.start().then(() => {
      prepared = true;
    });
    await until(() => held(context, API_SECRET.name).catch(() => undefined), 'the secrets of the API');
    assert.not(prepared);
    // Points the URL to a server that is available, as if the first one had started.
    await kubernetesPatch(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
    await done;
  });
  await later.close();
});

const kubernetesPatch = ({ kubernetes }: Context, name: string, stringData: Record<string, string>) =>
  kubernetes.client.patch(`${SECRETS_PATH}/${name}`, { stringData });

test('the secrets are created at the first start even if Projects were applied before it', async (context) => {
  const { client } = context.kubernetes;
  await client.create('/apis/slipway.dev/v1alpha1/projects', {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'Project',
    metadata: { name: 'applied-first' },
    spec: { owner: 'ann@example.com' },
  });
  await put(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
  await installed(context, (installation) => installation.start());
  assert.ok(await held(context, API_SECRET.name));
  await deleteAndWait(client, '/apis/slipway.dev/v1alpha1/projects/applied-first');
});

for (const [name, fields] of [
  [POSTGRES_SECRET.name, [POSTGRES_SECRET.password]],
  [API_SECRET.name, [API_SECRET.encryptionKeys, API_SECRET.jwtSecret]],
] as const) {
  test(`a missing Secret ${name} is not created again if there are Projects, and is in the log`, async (context) => {
    const { client } = context.kubernetes;
    await client.create('/apis/slipway.dev/v1alpha1/projects', {
      apiVersion: 'slipway.dev/v1alpha1',
      kind: 'Project',
      metadata: { name: 'made-before' },
      spec: { owner: 'ann@example.com' },
    });
    const status = { phase: 'healthy', url: 'https://made-before.example.com' };
    await client.patch('/apis/slipway.dev/v1alpha1/projects/made-before/status', { status });
    if (name !== POSTGRES_SECRET.name) await put(context, POSTGRES_SECRET.name, { url: urlOf(context.postgres) });
    const lines: string[] = [];
    const log = pino({}, { write: (line: string) => lines.push(line) });
    const installation = new PlatformInstallation({ client, log });
    void installation.start();
    const line = await until(() => lines.find((text) => /is missing/.test(text)), 'the log line');
    await installation.close();
    assert.match(JSON.parse(line).why, new RegExp(`slipway-system/${name} is missing`));
    for (const field of fields) assert.match(JSON.parse(line).why, new RegExp(field));
    assert.is(await held(context, name).catch(() => undefined), undefined);
    await deleteAndWait(client, '/apis/slipway.dev/v1alpha1/projects/made-before');
  });
}

test('an installation without a Postgres of the site has a password for the manifests’ Postgres', async (context) => {
  await installed(context, async (installation) => {
    void installation.start();
    await until(() => held(context, API_SECRET.name).catch(() => undefined), 'the secrets of the API');
  });
  const { password } = await held(context, POSTGRES_SECRET.name);
  const made = await held(context, API_SECRET.name);
  assert.ok((password as string).length >= 32);
  assert.match(
    made[API_SECRET.databaseUrl] as string,
    /^postgresql:\/\/slipway_api:.+@slipway-postgres\.slipway-system\.svc:5432\/slipway$/,
  );
  assert.not.match(made[API_SECRET.databaseUrl] as string, password as string);
});

test.run();
