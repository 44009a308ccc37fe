import { generateKeyPairSync } from 'node:crypto';
import { PostgrestClient } from '@supabase/postgrest-js';
import { SignJWT } from 'jose';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signToken, startTestCluster, type TestCluster, type TestProject } from '../testing/project.js';
import { endOf, octKey, type Program, startProgram, stop, urlOf } from './testing.js';

let cluster: TestCluster;
let project: TestProject;
let program: Program;

const NEXT = 'the secret that is about to sign, 32 characters long';
const PREVIOUS = 'the secret that has signed before, as long';
const asymmetric = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const SCHEMA = `
  create table todos (id int primary key, task text, owner uuid);
  create table secrets (id int primary key);
  alter table secrets enable row level security;
  insert into secrets values (1);
  create schema api; grant usage on schema api to anon; create table api.things (id int);
  grant select on api.things to anon;
`;

/** Variables that the operator sets; see docs/cluster-services.md. */
const environmentOf = ({ authenticator, jwtSecret, url }: TestProject): Record<string, string> => ({
  PGRST_LOG_LEVEL: 'info',
  PGRST_SERVER_HOST: '127.0.0.1',
  PGRST_SERVER_PORT: '0',
  PGRST_ADMIN_SERVER_PORT: '0',
  PGRST_DB_URI: urlOf(authenticator),
  PGRST_DB_SCHEMAS: 'public',
  PGRST_DB_EXTRA_SEARCH_PATH: 'public,extensions',
  PGRST_DB_ANON_ROLE: 'anon',
  PGRST_DB_POOL: '10',
  PGRST_DB_CONFIG: 'true',
  PGRST_JWT_SECRET: JSON.stringify({
    keys: [
      octKey(jwtSecret, 'current', ['verify']),
      octKey(NEXT, 'next', ['verify']),
      octKey(PREVIOUS, 'previous', ['verify']),
      { ...asymmetric.publicKey.export({ format: 'jwk' }), kid: 'own', alg: 'ES256', key_ops: ['verify'] },
    ],
  }),
  PGRST_OPENAPI_SERVER_PROXY_URI: `${url}/rest/v1`,
});

test.before(async () => {
  cluster = await startTestCluster();
  project = await cluster.project('alone');
  const owner = new pg.Client(project.owner);
  await owner.connect();
  await owner.query(SCHEMA);
  await owner.end();
  program = await startProgram('rest', environmentOf(project));
});
test.after(async () => {
  if (program) await stop(program);
  await cluster?.close();
});

const client = (token?: string, url = program.url) =>
  new PostgrestClient(url, token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } });

/** Starts another program while `work` runs. */
async function having<T>(environment: Record<string, string>, work: (program: Program) => Promise<T>): Promise<T> {
  const other = await startProgram('rest', environment);
  try {
    return await work(other);
  } finally {
    await stop(other);
  }
}

test('postgrest-js writes and reads at the root of the program', async () => {
  const db = client(await signToken({ role: 'service_role' }, project.jwtSecret));
  const written = await db.from('todos').insert({ id: 1, task: 'stand alone' }).select();
  assert.equal([written.error, written.data], [null, [{ id: 1, task: 'stand alone', owner: null }]]);
  const read = await db.from('todos').select('task').eq('id', 1).single();
  assert.equal([read.error, read.data], [null, { task: 'stand alone' }]);
});

test('a request without a token has the anonymous role, under row-level security', async () => {
  const { data, error } = await client().from('secrets').select();
  assert.equal([data, error], [[], null]);
});

for (const [which, secretOf] of Object.entries({
  current: (): string => project.jwtSecret,
  next: (): string => NEXT,
  previous: (): string => PREVIOUS,
})) {
  test(`a token of the ${which} secret is accepted`, async () => {
    const { data } = await client(await signToken({ role: 'service_role' }, secretOf()))
      .from('secrets')
      .select();
    assert.equal(data, [{ id: 1 }]);
  });
}

test("a token of the owner's asymmetric key is accepted", async () => {
  const header = { alg: 'ES256', kid: 'own' };
  const token = await new SignJWT({ role: 'service_role' }).setProtectedHeader(header).sign(asymmetric.privateKey);
  assert.equal((await client(token).from('secrets').select()).data, [{ id: 1 }]);
});

test('a token of another secret is rejected with PostgREST’s error', async () => {
  const { status, error } = await client(await signToken({ role: 'service_role' }, 'x'.repeat(40)))
    .from('secrets')
    .select();
  assert.equal([status, error?.code], [401, 'PGRST301']);
});

test('a JWT secret may be plain text or base64', async () => {
  const token = await signToken({ role: 'service_role' }, project.jwtSecret);
  const plain = { ...environmentOf(project), PGRST_JWT_SECRET: project.jwtSecret };
  const encoded = {
    ...plain,
    PGRST_JWT_SECRET: Buffer.from(project.jwtSecret).toString('base64'),
    PGRST_JWT_SECRET_IS_BASE64: 'true',
  };
  for (const environment of [plain, encoded]) {
    const { data } = await having(environment, async ({ url }) => client(token, url).from('secrets').select());
    assert.equal(data, [{ id: 1 }]);
  }
});

test('a program without a secret rejects every token, even one signed with an empty secret', async () => {
  const { PGRST_JWT_SECRET: _, ...environment } = environmentOf(project);
  const token = await signToken({ role: 'service_role' }, '\0');
  const { status } = await having(environment, async ({ url }) => client(token, url).from('secrets').select());
  assert.is(status, 401);
});

test('a request without a token is rejected if there is no anonymous role', async () => {
  const { PGRST_DB_ANON_ROLE: _, ...environment } = environmentOf(project);
  const { status, error } = await having(environment, async ({ url }) =>
    client(undefined, url).from('secrets').select(),
  );
  assert.equal([status, error?.code], [401, 'PGRST302']);
});

test('settings of the database override those of the environment', async () => {
  const environment = { ...environmentOf(project), PGRST_DB_SCHEMAS: 'api', PGRST_DB_MAX_ROWS: '1' };
  await having(environment, async ({ url }) => {
    assert.is((await client(undefined, url).from('things').select()).status, 200);
    assert.is((await client(undefined, url).from('todos').select()).status, 404);
  });
  const owner = new pg.Client(project.owner);
  await owner.connect();
  await owner.query(`alter database "${project.owner.database}" set pgrst.db_schemas = 'public'`);
  await having(environment, async ({ url }) => {
    assert.is((await client(undefined, url).from('things').select()).status, 404);
  });
  await having({ ...environment, PGRST_DB_CONFIG: 'false' }, async ({ url }) => {
    assert.is((await client(undefined, url).from('things').select()).status, 200);
  });
  await owner.query(`alter database "${project.owner.database}" reset pgrst.db_schemas`);
  await owner.end();
});

test('the OpenAPI document names the public URL', async () => {
  const description = (await (await fetch(`${program.url}/`)).json()) as { host: string; basePath: string };
  const { host, pathname } = new URL(`${project.url}/rest/v1/`);
  assert.equal([description.host.replace(/:80$/, ''), description.basePath], [host, pathname]);
});

test('/live returns 200 while the program runs, and /ready only while its database responds', async () => {
  const statuses = async ({ admin }: Program) => {
    const answers = await Promise.all(['/live', '/ready'].map((path) => fetch(`${admin}${path}`)));
    return answers.map(({ status }) => status);
  };
  assert.equal(await statuses(program), [200, 200]);
  const nowhere = { ...project.authenticator, host: '/nowhere' };
  await having({ ...environmentOf(project), PGRST_DB_URI: urlOf(nowhere) }, async (other) => {
    assert.equal(await statuses(other), [200, 503]);
  });
});

test('SIGTERM ends the program with status 0', async () => {
  const other = await startProgram('rest', environmentOf(project));
  await client(undefined, other.url).from('todos').select();
  assert.is((await stop(other)).code, 0);
});

for (const [name, wrong] of Object.entries({
  PGRST_DB_URI: 'host=somewhere password=hidden',
  PGRST_JWT_SECRET: 'hidden',
  PGRST_DB_ANON_ROLE: 'postgres',
  PGRST_SERVER_PORT: 'eighty',
  PGRST_DB_POOL: '0',
  PGRST_JWT_ROLE_CLAIM_KEY: '.hidden',
})) {
  test(`an error of an invalid ${name} names it, but not its value`, async () => {
    const { code, output } = await endOf('rest', { ...environmentOf(project), [name]: wrong });
    assert.is(code, 1);
    assert.match(output, name);
    assert.not.match(output, 'hidden');
  });
}

test.run();
