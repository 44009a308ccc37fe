/**
 * What one customer may try on another and on the platform, through the public ports alone. Each line is refused, and afterwards
 * the neighbour is whole. The roles inside Postgres have a longer table of their own beside project-database.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { readdir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { authAdminRole, authenticatorRole, databaseOf, ownerRole } from '@slipway/crds';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { processTree } from './processes.js';
import { clientOf, TODOS_SQL } from './todos.js';

interface Customer {
  person: Management;
  project: ProjectView & { webhook_secret: string };
}

let platform: RunningPlatform;
let mallory: Customer;
let victim: Customer;
/** Of a user who signed up at the victim's project. */
let victimUserToken: string;

test.before(async () => {
  platform = await startPlatform();
  [mallory, victim] = await Promise.all([customer('mallory'), customer('victim')]);
  await victim.person.query(victim.project.id, TODOS_SQL);
  const signedUp = await clientOf(victim.project).auth.signUp({
    email: 'eve@example.com',
    password: 'a long password',
  });
  victimUserToken = signedUp.data.session?.access_token as string;
  const written = await fetch(`${victim.project.postgrest_url}/todos`, {
    method: 'POST',
    headers: bearer(victim.project.anon_key, victimUserToken),
    body: JSON.stringify({ task: 'secret of the victim' }),
  });
  assert.is(written.status, 201);
});

test.after(async () => {
  await platform?.remove();
});

async function customer(name: string): Promise<Customer> {
  const person = await Management.register(platform.url);
  const project = await person.untilHealthy((await person.createProject(name)).id);
  return { person, project: project as Customer['project'] };
}

const bearer = (apikey: string, token = apikey) => ({
  apikey,
  authorization: `Bearer ${token}`,
  'content-type': 'application/json',
});

const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');

/** A token as its sender likes it: any header, any claims, signed with any secret or with none. */
function forge(header: object, claims: object, secret?: string): string {
  const content = `${encode({ typ: 'JWT', ...header })}.${encode(claims)}`;
  return `${content}.${secret === undefined ? '' : createHmac('sha256', secret).update(content).digest('base64url')}`;
}

const inAnHour = () => Math.floor(Date.now() / 1000) + 3600;
const service = () => ({ role: 'service_role', iss: 'slipway', ref: victim.project.ref, exp: inAnHour() });

// ——— over db_url ———

const loginOf = (url: string, change: Partial<{ user: string; database: string }> = {}) => {
  const parsed = new URL(url);
  return {
    host: '127.0.0.1',
    port: Number(parsed.port),
    user: decodeURIComponent(parsed.username),
    password: decodeURIComponent(parsed.password),
    database: decodeURIComponent(parsed.pathname.slice(1)),
    ...change,
  };
};

async function connectCode(login: ReturnType<typeof loginOf>): Promise<string> {
  const client = new pg.Client(login);
  try {
    await client.connect();
    return 'connected';
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.end().catch(() => {});
  }
}

test('db_url reaches its own database', async () => {
  assert.is(await connectCode(loginOf(mallory.project.db_url)), 'connected');
});

for (const database of ['the neighbour’s', 'slipway', 'postgres', 'template1']) {
  test(`db_url does not reach the database ${database}`, async () => {
    const name = database === 'the neighbour’s' ? databaseOf(victim.project.ref) : database;
    // pg_hba.conf knows no such pair, or CONNECT is not granted.
    const expected = database === 'the neighbour’s' ? '42501' : '28000';
    assert.is(await connectCode(loginOf(mallory.project.db_url, { database: name })), expected);
  });
}

for (const [what, role] of [
  ['the superuser', () => 'slipway'],
  ['the neighbour', () => ownerRole(victim.project.ref)],
  ['its own authenticator', () => authenticatorRole(mallory.project.ref)],
  ['the owner of its accounts', () => authAdminRole(mallory.project.ref)],
  ['a shared role', () => 'service_role'],
] as const) {
  test(`the password of db_url does not log in ${what}`, async () => {
    const code = await connectCode(loginOf(mallory.project.db_url, { user: role() }));
    assert.ok(['28P01', '28000'].includes(code), code);
  });
}

// ——— SQL, over the query route and over db_url alike ———

const SQL_ATTACKS: [string, (victimRef: string) => string, string?][] = [
  ['run a program', () => `COPY (SELECT 1) TO PROGRAM 'id'`],
  ['read a program', () => `CREATE TEMP TABLE t (x text); COPY t FROM PROGRAM 'id'`],
  ['read a file', () => `SELECT pg_read_file('/etc/passwd')`],
  ['write a file', () => `COPY (SELECT 1) TO '/tmp/slipway-attack'`],
  ['become the superuser', () => 'SET ROLE slipway'],
  ['become the superuser after RESET ROLE', () => 'RESET ROLE; SET ROLE slipway'],
  ['become the superuser after RESET SESSION AUTHORIZATION', () => 'RESET SESSION AUTHORIZATION; SET ROLE slipway'],
  ['become the neighbour', (ref) => `SET ROLE ${pg.escapeIdentifier(ownerRole(ref))}`],
  ['change the server', () => `ALTER SYSTEM SET log_statement = 'all'`],
  ['make a superuser', () => 'CREATE ROLE evil SUPERUSER LOGIN'],
  ['make itself a superuser', () => 'ALTER ROLE CURRENT_USER SUPERUSER'],
  ['bypass row-level security', () => 'ALTER ROLE CURRENT_USER BYPASSRLS'],
  ['dial the server itself with dblink', () => 'CREATE EXTENSION dblink SCHEMA extensions'],
  ['dial the server itself with postgres_fdw', () => 'CREATE EXTENSION postgres_fdw'],
  [
    'dial the server itself with a subscription',
    () => `CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1' PUBLICATION p`,
  ],
  ['run Python', () => 'CREATE EXTENSION plpython3u'],
  ['pin the log with a slot', () => `SELECT pg_create_logical_replication_slot('evil', 'pgoutput')`],
  ['read passwords', () => 'SELECT rolpassword FROM pg_authid'],
  ['watch the others', () => 'SELECT query FROM pg_stat_activity'],
  ['drop the neighbour', (ref) => `DROP DATABASE ${pg.escapeIdentifier(databaseOf(ref))}`],
  ['open the neighbour', (ref) => `GRANT CONNECT ON DATABASE ${pg.escapeIdentifier(databaseOf(ref))} TO PUBLIC`],
  [
    'plant an event trigger',
    () => 'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION extensions.pgrst_ddl_watch()',
  ],
];

for (const [what, sql] of SQL_ATTACKS) {
  test(`SQL over the query route can not ${what}`, async () => {
    const { status, body } = await mallory.person.call<{ sqlstate: string }>(
      'POST',
      `/projects/${mallory.project.id}/query`,
      { sql: sql(victim.project.ref) },
    );
    assert.is(status, 400);
    assert.is(body.sqlstate, '42501');
  });

  test(`SQL over db_url can not ${what}`, async () => {
    const client = new pg.Client(loginOf(mallory.project.db_url));
    await client.connect();
    try {
      const code = await client.query(sql(victim.project.ref)).then(
        () => 'allowed',
        (error) => error.code,
      );
      assert.is(code, '42501');
    } finally {
      await client.end();
    }
  });
}

test('nothing that one query sets is there for the next', async () => {
  await mallory.person.query(mallory.project.id, `SET search_path = evil; SET ROLE anon; PREPARE p AS SELECT 1`);
  const { rows } = await mallory.person.query(
    mallory.project.id,
    `SELECT current_user::text AS name, (SELECT count(*)::int FROM pg_prepared_statements) AS prepared`,
  );
  assert.equal(rows, [{ name: ownerRole(mallory.project.ref), prepared: 0 }]);
});

// ——— tokens at the data plane ———

const TOKENS: [string, () => string][] = [
  ['signed by nobody (alg none)', () => forge({ alg: 'none' }, service())],
  ['signed by nobody (alg nOnE)', () => forge({ alg: 'nOnE' }, service(), '')],
  ['with no alg at all', () => forge({}, service(), 'x')],
  ['signed with another key', () => forge({ alg: 'HS256' }, service(), 'another secret of enough characters')],
  ['signed with an empty key', () => forge({ alg: 'HS256' }, service(), '')],
  ['signed with the anon key as the secret', () => forge({ alg: 'HS256' }, service(), victim.project.anon_key)],
  ['that says RS256 over an HMAC', () => forge({ alg: 'RS256' }, service(), victim.project.anon_key)],
  ['whose kid is a path', () => forge({ alg: 'HS256', kid: '../../../../dev/null' }, service(), '')],
  ['whose key comes with it', () => forge({ alg: 'HS256', jwk: { kty: 'oct', k: 'eA' } }, service(), 'x')],
  ['that is the neighbour’s service_role key', () => mallory.project.service_role_key],
  ['that is the neighbour’s anon key', () => mallory.project.anon_key],
  ['that is a personal access token', () => victim.person.token],
  ['that is no token', () => 'x.y.z'],
];

for (const [what, token] of TOKENS) {
  test(`REST refuses a token ${what}`, async () => {
    for (const headers of [bearer(token()), bearer(victim.project.anon_key, token())]) {
      const response = await fetch(`${victim.project.postgrest_url}/todos`, { headers });
      assert.is(response.status, 401, JSON.stringify(headers));
      assert.not.match(await response.text(), /secret of the victim/);
    }
  });

  test(`auth's admin routes refuse a token ${what}`, async () => {
    const response = await fetch(`${victim.project.project_url}/auth/v1/admin/users`, {
      headers: bearer(victim.project.anon_key, token()),
    });
    assert.ok([401, 403].includes(response.status), String(response.status));
    assert.not.match(await response.text(), /eve@example\.com/);
  });
}

test('no key at all is 401, on REST and on auth', async () => {
  for (const route of ['rest/v1/todos', 'auth/v1/user', 'auth/v1/admin/users']) {
    assert.is((await fetch(`${victim.project.project_url}/${route}`)).status, 401, route);
  }
});

test('the anon key and a user’s token are refused on admin routes', async () => {
  for (const token of [victim.project.anon_key, victimUserToken]) {
    for (const [method, route] of [
      ['GET', 'admin/users'],
      ['POST', 'admin/users'],
      ['DELETE', 'admin/users/00000000-0000-0000-0000-000000000000'],
    ] as const) {
      const response = await fetch(`${victim.project.project_url}/auth/v1/${route}`, {
        method,
        headers: bearer(victim.project.anon_key, token),
      });
      assert.ok([401, 403].includes(response.status), `${method} ${route}: ${response.status}`);
    }
  }
});

test('what users say of themselves never chooses their role', async () => {
  const client = clientOf(mallory.project);
  await mallory.person.query(
    mallory.project.id,
    'create table private (id int); alter table private enable row level security',
  );
  const signedUp = await client.auth.signUp({
    email: 'climber@example.com',
    password: 'a long password',
    options: { data: { role: 'service_role' } },
  });
  assert.is(signedUp.error, null);
  await client.auth.updateUser({ data: { role: 'service_role', app_metadata: { role: 'service_role' } } });
  await client.auth.refreshSession();
  const [, claims] = ((await client.auth.getSession()).data.session?.access_token ?? '').split('.');
  assert.is(JSON.parse(Buffer.from(claims as string, 'base64url').toString()).role, 'authenticated');
  assert.is((await client.from('private').insert({ id: 1 })).error?.code, '42501');
});

test('a token for a data plane is refused by the platform, service_role keys included', async () => {
  for (const token of [victim.project.service_role_key, victim.project.anon_key, victimUserToken]) {
    const response = await fetch(`${platform.url}/projects`, { headers: { authorization: `Bearer ${token}` } });
    assert.is(response.status, 401);
  }
});

// ——— the platform's own routes ———

/** These ask for a key of the project, and no account: whoever has none is told only that. */
const KEYED_ROUTES = ['POST /projects/{id}/mcp'];

interface Operation {
  requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> };
}

/** Each route under /projects/{id} that the API's document has, for the victim's project, with a body that it would take. */
async function routesOfOneProject() {
  const document = await (await fetch(`${platform.url}/openapi.json`)).json();
  const { paths } = document as { paths: Record<string, Record<string, Operation>> };
  return Object.entries(paths)
    .filter(([route]) => /^\/projects\/\{id\}(\/|$)/.test(route))
    .flatMap(([route, operations]) =>
      Object.entries(operations).map(([method, { requestBody }]) => ({
        method: method.toUpperCase(),
        route: route.replace('{id}', String(victim.project.id)).replaceAll(/\{\w+\}/g, '1'),
        body: Object.values(requestBody?.content['application/json']?.examples ?? {})[0]?.value,
      })),
    );
}

test('every route of a neighbour’s project is 404, as if it were not there', async () => {
  const { body: missing } = await mallory.person.call<{ detail: string }>('GET', '/projects/2147483647');
  const routes = await routesOfOneProject();
  assert.ok(routes.length >= 15, 'the document lists the routes');
  for (const { method, route, body } of routes) {
    const answer = await mallory.person.call<{ detail: string }>(method, route, body);
    if (KEYED_ROUTES.includes(`${method} ${route.replace(/\d+/, '{id}')}`)) {
      assert.is(answer.status, 401, `${method} ${route}`);
      continue;
    }
    assert.is(answer.status, 404, `${method} ${route}`);
    assert.is(answer.body.detail.replaceAll(/\d+/g, ''), missing.detail.replaceAll(/\d+/g, ''));
  }
  const { body: listed } = await mallory.person.call<ProjectView[]>('GET', '/projects');
  assert.equal(
    listed.map(({ id }) => id),
    [mallory.project.id],
  );
});

test('a token of few scopes is refused elsewhere, by the name of the scope that it lacks', async () => {
  const { body: token } = await victim.person.call<{ token: string }>('POST', '/tokens', {
    name: 'reader',
    scopes: ['projects:read'],
  });
  for (const [method, route, body, scope] of [
    ['POST', '/projects', { name: 'more' }, 'projects:write'],
    ['DELETE', `/projects/${victim.project.id}`, undefined, 'projects:delete'],
    ['POST', `/projects/${victim.project.id}/query`, { sql: 'select 1' }, 'database:query'],
    ['POST', '/tokens', { name: 'grown' }, 'tokens:write'],
  ] as const) {
    const response = await fetch(`${platform.url}${route}`, {
      method,
      headers: { authorization: `Bearer ${token.token}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    assert.is(response.status, 403, route);
    assert.match(await response.text(), new RegExp(scope));
  }
});

test('the Kubernetes API answers nobody without its token', async () => {
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  try {
    for (const token of [undefined, 'x', mallory.person.token, mallory.project.service_role_key]) {
      const response = await fetch(`https://127.0.0.1:${platform.port + 1}/apis/slipway.dev/v1alpha1/projects`, {
        headers: token ? { authorization: `Bearer ${token}` } : {},
      });
      assert.is(response.status, 401);
    }
  } finally {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  }
});

// ——— noisy neighbours ———

test('endless queries and a flood of connections are bounded, and the neighbour is served meanwhile', async () => {
  const endless = Array.from({ length: 8 }, () =>
    mallory.person.call('POST', `/projects/${mallory.project.id}/query`, { sql: 'select pg_sleep(3)' }),
  );
  const flood = await Promise.all(
    Array.from({ length: 60 }, async () => {
      const client = new pg.Client(loginOf(mallory.project.db_url));
      return client.connect().then(
        () => client,
        () => undefined,
      );
    }),
  );
  const held = flood.filter((client) => client !== undefined);
  try {
    assert.ok(held.length < 60, 'the role’s limit of connections holds');
    const read = await fetch(`${victim.project.postgrest_url}/todos?select=task`, {
      headers: bearer(victim.project.anon_key, victimUserToken),
    });
    assert.equal(await read.json(), [{ task: 'secret of the victim' }]);
    assert.is(await connectCode(loginOf(victim.project.db_url)), 'connected');
  } finally {
    await Promise.all(held.map((client) => client.end()));
  }
  const statuses = (await Promise.all(endless)).map(({ status }) => status);
  assert.ok(statuses.includes(429), `more at once than a project may run are refused: ${statuses}`);
});

// ——— afterwards ———

test('after all of it the neighbour’s row is there, and both projects are healthy', async () => {
  const read = await fetch(`${victim.project.postgrest_url}/todos?select=task`, {
    headers: bearer(victim.project.anon_key, victimUserToken),
  });
  assert.equal(await read.json(), [{ task: 'secret of the victim' }]);
  for (const { person, project } of [mallory, victim]) await person.untilHealthy(project.id);
});

test('no key, password or token of all this is in a log, a resource, an event or a process’s arguments', async () => {
  const canary = (field: string) => `canary-${field}-${randomUUID()}`;
  const planted = {
    jwt: canary('jwt'),
    git: canary('git'),
    env: canary('env'),
    slack: `https://hooks.slack.com/services/${canary('slack')}`,
  };
  const password = canary('password');
  const account = { email: `${randomUUID()}@example.com`, password };
  for (const route of ['/auth/register', '/auth/login']) {
    const { status } = await victim.person.call('POST', route, account);
    assert.ok(status < 300, `${route}: ${status}`);
  }
  const created = await victim.person.call<ProjectView>('POST', '/projects', {
    name: 'canary',
    jwt_secret: planted.jwt,
  });
  assert.is(created.status, 201);
  const changed = await victim.person.call('PATCH', `/projects/${created.body.id}`, {
    github_token: planted.git,
    env_vars: { CANARY: planted.env },
    slack_webhook: planted.slack,
  });
  assert.is(changed.status, 200, JSON.stringify(changed.body));
  const third = (await victim.person.untilHealthy(created.body.id)) as Customer['project'];
  const secrets = [mallory.project, victim.project, third].flatMap((project) => [
    project.anon_key,
    project.service_role_key,
    project.webhook_secret,
    loginOf(project.db_url).password,
  ]);
  secrets.push(...Object.values(planted), password, mallory.person.token, victim.person.token);
  secrets.push(
    victimUserToken,
    'a long password',
    await readFile(path.join(platform.home, 'secrets', 'postgres-superuser'), 'utf8'),
  );
  const places = [...(await logs()), ...(await resources()), ...(await processArguments())];
  for (const [place, text] of places) {
    for (const secret of secrets) assert.not.ok(text.includes(secret), `${place} holds ${secret.slice(0, 12)}…`);
  }
});

test('what is kept for a project is unreadable in the files of Postgres', async () => {
  const [plain, env, git] = [randomUUID(), randomUUID(), randomUUID()];
  const { status } = await victim.person.call('PATCH', `/projects/${victim.project.id}`, {
    github_token: git,
    env_vars: { CANARY: env },
  });
  assert.is(status, 200);
  await victim.person.query(victim.project.id, `create table seen as select '${plain}' as mark`);
  const admin = new pg.Client(await platform.admin());
  await admin.connect();
  await admin.query('CHECKPOINT').finally(() => admin.end());
  const folder = path.join(await realpath(path.join(platform.home, 'postgres')), 'base');
  let found = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    if (bytes.includes(plain)) found++;
    for (const secret of [env, git, victim.project.service_role_key]) {
      assert.not.ok(bytes.includes(secret), `${file} holds a secret`);
    }
  }
  assert.ok(found > 0, 'what is not encrypted is found: the files are those that were written');
});

type Place = readonly [name: string, text: string];

async function logs(): Promise<Place[]> {
  const folder = path.join(platform.home, 'logs');
  const files = await readdir(folder);
  assert.ok(files.length > 0, 'there are logs');
  return Promise.all(files.map(async (file) => [file, await readFile(path.join(folder, file), 'utf8')] as const));
}

async function resources(): Promise<Place[]> {
  if (!kubectlIsThere) return [];
  const commands = [
    ['get', 'projects,events', '-A', '-o', 'yaml'],
    ['describe', 'projects'],
  ];
  return Promise.all(
    commands.map(async (command) => [command.join(' '), await kubectl(platform.kubeconfig, command)] as const),
  );
}

async function processArguments(): Promise<Place[]> {
  if (process.platform !== 'linux') return [];
  const pids = await processTree(platform.pid);
  assert.ok(pids.length > 1, 'the platform has processes');
  const read = (pid: number) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return Promise.all(pids.map(async (pid) => [`process ${pid}`, await read(pid)] as const));
}

test.run();
