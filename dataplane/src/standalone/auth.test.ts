import { AuthClient } from '@supabase/auth-js';
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

/** Variables that the operator sets; see docs/cluster-services.md. */
const environmentOf = ({ authAdmin, jwtSecret, url }: TestProject): Record<string, string> => ({
  GOTRUE_API_HOST: '127.0.0.1',
  GOTRUE_API_PORT: '0',
  API_EXTERNAL_URL: `${url}/auth/v1`,
  GOTRUE_DB_DRIVER: 'postgres',
  GOTRUE_DB_DATABASE_URL: `${urlOf(authAdmin)}&search_path=auth`,
  GOTRUE_DB_MAX_POOL_SIZE: '10',
  GOTRUE_DB_CONN_MAX_IDLE_TIME: '1m',
  GOTRUE_JWT_SECRET: jwtSecret,
  GOTRUE_JWT_KEYS: JSON.stringify([
    octKey(jwtSecret, 'current', ['sign', 'verify']),
    octKey(NEXT, 'next', ['verify']),
    octKey(PREVIOUS, 'previous', ['verify']),
  ]),
  GOTRUE_JWT_ISSUER: `${url}/auth/v1`,
  GOTRUE_JWT_AUD: 'authenticated',
  GOTRUE_JWT_DEFAULT_GROUP_NAME: 'authenticated',
  GOTRUE_JWT_ADMIN_ROLES: 'service_role',
  GOTRUE_JWT_EXP: '1800',
  GOTRUE_SITE_URL: 'https://app.example.com',
  GOTRUE_DISABLE_SIGNUP: 'false',
  GOTRUE_EXTERNAL_EMAIL_ENABLED: 'true',
  GOTRUE_EXTERNAL_PHONE_ENABLED: 'false',
  GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED: 'true',
  GOTRUE_MAILER_AUTOCONFIRM: 'true',
  GOTRUE_MAILER_URLPATHS_INVITE: '/p/alone/auth/v1/verify',
  GOTRUE_MAILER_URLPATHS_CONFIRMATION: '/p/alone/auth/v1/verify',
  GOTRUE_MAILER_URLPATHS_RECOVERY: '/p/alone/auth/v1/verify',
  GOTRUE_MAILER_URLPATHS_EMAIL_CHANGE: '/p/alone/auth/v1/verify',
  GOTRUE_RATE_LIMIT_HEADER: 'X-Forwarded-For',
});

test.before(async () => {
  cluster = await startTestCluster();
  project = await cluster.project('alone');
  program = await startProgram('auth', environmentOf(project));
});
test.after(async () => {
  if (program) await stop(program);
  await cluster?.close();
});

const client = (token?: string) =>
  new AuthClient({
    url: program.url,
    headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
    persistSession: false,
    autoRefreshToken: false,
  });

test('auth-js can sign up, sign in, refresh and sign out at the program’s root, without any API key', async () => {
  const auth = client();
  const { data, error } = await auth.signUp({ email: 'one@example.com', password: 'a good password' });
  assert.equal(error, null);
  assert.equal(data.user?.email, 'one@example.com');
  const signedIn = await auth.signInWithPassword({ email: 'one@example.com', password: 'a good password' });
  assert.equal(signedIn.error, null);
  const refreshed = await auth.refreshSession();
  assert.equal(refreshed.error, null);
  assert.equal((await auth.getUser()).data.user?.email, 'one@example.com');
  assert.equal((await auth.signOut()).error, null);
});

test('tokens have the issuer and the lifetime that the environment sets', async () => {
  const { data } = await client().signInAnonymously();
  const claims = JSON.parse(Buffer.from(data.session?.access_token.split('.')[1] as string, 'base64url').toString());
  assert.is(claims.iss, `${project.url}/auth/v1`);
  assert.is(claims.exp - claims.iat, 1800);
});

for (const [which, secretOf] of Object.entries({
  current: (): string => project.jwtSecret,
  next: (): string => NEXT,
  previous: (): string => PREVIOUS,
})) {
  test(`a service_role token of the ${which} secret administers users`, async () => {
    const token = await signToken({ role: 'service_role' }, secretOf());
    const { error } = await client(token).admin.listUsers();
    assert.equal(error, null);
  });
}

test('an admin route rejects a request without a token, a user’s token, and a token of another secret', async () => {
  const user = await client().signInAnonymously();
  const others = [
    undefined,
    user.data.session?.access_token,
    await signToken({ role: 'service_role' }, 'x'.repeat(40)),
  ];
  const statuses = others.map(async (token) => (await client(token).admin.listUsers()).error?.status);
  assert.equal(await Promise.all(statuses), [401, 403, 403]);
});

test('unknown and unsupported settings are logged, and fixed settings with the right value are not', async () => {
  const environment = {
    ...environmentOf(project),
    GOTRUE_JWT_AUD: 'others',
    GOTRUE_NO_SUCH_SETTING: 'x',
  };
  const other = await startProgram('auth', environment);
  const token = await signToken({ role: 'service_role' }, project.jwtSecret);
  const settings = await fetch(`${other.url}/settings`, { headers: { Authorization: `Bearer ${token}` } });
  const { config_problems } = (await settings.json()) as { config_problems: { key: string }[] };
  const { output } = await stop(other);
  assert.equal(
    config_problems.map(({ key }) => key),
    ['GOTRUE_NO_SUCH_SETTING'],
  );
  const named = [...output.matchAll(/"(?:name|key)":"(GOTRUE_\w+)"/g)].map(([, name]) => name);
  assert.equal([...new Set(named)].sort(), ['GOTRUE_JWT_AUD', 'GOTRUE_NO_SUCH_SETTING']);
});

test('an older schema is migrated before the program serves', async () => {
  const older = await cluster.project('older');
  const database = new pg.Client(cluster.postgres.admin(older.owner.database));
  await database.connect();
  await database.query("delete from auth.schema_migrations where version like '%functions'");
  await database.query('drop function auth.uid(), auth.role(), auth.email(), auth.jwt()');
  await stop(await startProgram('auth', environmentOf(older)));
  const { rows } = await database.query("select to_regprocedure('auth.uid()') is not null as there");
  await database.end();
  assert.is(rows[0].there, true);
});

test('SIGTERM ends the program with status 0 after the request in flight', async () => {
  const other = await startProgram('auth', environmentOf(project));
  const body = JSON.stringify({ email: 'late@example.com', password: 'a good password' });
  const { promise: rest, resolve: sendRest } = Promise.withResolvers<void>();
  const half = new ReadableStream({
    async start(controller) {
      controller.enqueue(Buffer.from(body.slice(0, 10)));
      await rest;
      controller.enqueue(Buffer.from(body.slice(10)));
      controller.close();
    },
  });
  const answer = fetch(`${other.url}/signup`, {
    method: 'POST',
    body: half,
    duplex: 'half',
    headers: { 'Content-Type': 'application/json' },
  } as RequestInit);
  await fetch(`${other.url}/health`);
  other.process.kill('SIGTERM');
  await refused(other.url);
  sendRest();
  assert.is((await answer).status, 200);
  assert.is((await other.ended).code, 0);
});

/** Resolves when it accepts no new connection. */
async function refused(url: string): Promise<void> {
  while (
    await fetch(`${url}/health`, { headers: { Connection: 'close' } }).then(
      () => true,
      () => false,
    )
  );
}

for (const [name, wrong] of Object.entries({
  API_EXTERNAL_URL: 'not a url',
  GOTRUE_DB_DATABASE_URL: 'mysql://somebody:hidden@host/db',
  GOTRUE_API_PORT: '99999',
  GOTRUE_JWT_KEYS: '{"hidden',
  GOTRUE_JWT_SECRET: '',
})) {
  test(`an error of an invalid ${name} names it, but not its value`, async () => {
    const { code, output } = await endOf('auth', { ...environmentOf(project), [name]: wrong });
    assert.is(code, 1);
    assert.match(output, name);
    assert.not.match(output, 'hidden');
  });
}

test.run();
