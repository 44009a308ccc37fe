/**
 * Tests attacks of one customer on another and on the platform, through public addresses only. Each attack is rejected,
 * and the neighbour is unchanged afterwards. Every platform runs this suite. project-database has more attacks on the
 * roles inside Postgres.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { API_VERSION, type Plan } from '@slipway/crds';
import { authAdminRole, authenticatorRole, databaseOf, ownerRole } from '@slipway/installation';
import { until } from '@slipway/testing';
import pg from 'pg';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { hiddenNames } from './hidden-names.suite.js';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { databaseIdOf, type Login, loginOf } from './network.js';
import type { Platform } from './platform.js';
import { clientOf, TODOS_SQL } from './todos.js';

export interface Customer {
  person: Management;
  project: ProjectView & { webhook_secret: string };
}

/** A text that people can read, and its name. */
export type Place = readonly [name: string, text: string];

export interface Attacked {
  platform: Platform;
  /** Plan of the customers' projects. */
  plan: Plan;
  /** Databases of the tenants' Postgres that belong to no project. */
  databases: string[];
  /** Returns everything that the platform wrote: logs and arguments of processes. */
  written(): Promise<Place[]>;
  /** Returns the platform's own secrets, which none of these texts may contain. */
  secrets(): Promise<string[]>;
}

interface Scene extends Attacked {
  /** The name of the superuser of the tenants' Postgres. */
  superuser: string;
  mallory: Customer;
  victim: Customer;
  /** Token of a user who signed up at the victim's project. */
  victimUserToken: string;
}

/** Registers the tests. `start` runs before the first test. Its result is used until `close`. */
export function attack(test: Test, start: () => Promise<Attacked>, close: () => Promise<void>): { scene: Scene } {
  const scene = {} as Scene;
  test.before(async () => {
    Object.assign(scene, await start());
    await populate(scene);
  });
  test.after(close);
  overDatabaseUrl(test, scene);
  bySql(test, scene);
  withTokens(test, scene);
  atTheApi(test, scene);
  inBrowsers(test, scene);
  asNoisyNeighbour(test, scene);
  hiddenNames(test, {
    get platform() {
      return scene.platform;
    },
    get plan() {
      return scene.plan;
    },
    login: () => login(scene, scene.mallory),
  });
  afterwards(test, scene);
  return { scene };
}

async function populate(scene: Scene): Promise<void> {
  scene.superuser = (await scene.platform.admin()).user as string;
  [scene.mallory, scene.victim] = await Promise.all([customer(scene, 'mallory'), customer(scene, 'victim')]);
  const { person, project } = scene.victim;
  await person.query(project.id, TODOS_SQL);
  const signedUp = await clientOf(project, scene.platform.network).auth.signUp({
    email: 'eve@example.com',
    password: 'a long password',
  });
  scene.victimUserToken = signedUp.data.session?.access_token as string;
  const written = await scene.platform.network.fetch(`${project.postgrest_url}/todos`, {
    method: 'POST',
    headers: bearer(project.anon_key, scene.victimUserToken),
    body: JSON.stringify({ task: 'secret of the victim' }),
  });
  assert.is(written.status, 201);
}

async function customer({ platform, plan }: Attacked, name: string): Promise<Customer> {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject(name, plan)).id);
  return { person, project: project as Customer['project'] };
}

/** Returns the id in the names of the customer's database and roles. */
const idOf = ({ project }: Customer) => databaseIdOf(loginOf(project.db_url));

const bearer = (apikey: string, token = apikey) => ({
  apikey,
  authorization: `Bearer ${token}`,
  'content-type': 'application/json',
});

const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');

/** Makes a token with any header and claims, signed with any secret or none. */
function forge(header: object, claims: object, secret?: string): string {
  const content = `${encode({ typ: 'JWT', ...header })}.${encode(claims)}`;
  return `${content}.${secret === undefined ? '' : createHmac('sha256', secret).update(content).digest('base64url')}`;
}

const inAnHour = () => Math.floor(Date.now() / 1000) + 3600;
// ——— over db_url ———

function overDatabaseUrl(test: Test, scene: Scene): void {
  const codeOf = async (change: Partial<Login> = {}) =>
    connectCode({ ...(await login(scene, scene.mallory)), ...change });

  test('db_url connects to its own database', async () => {
    assert.is(await codeOf(), 'connected');
  });

  test('db_url does not connect to the neighbour’s database', async () => {
    assert.is(await codeOf({ database: databaseOf(idOf(scene.victim)) }), '42501');
  });

  test('db_url does not connect to a database that belongs to no project', async () => {
    // pg_hba.conf has no rule for such a pair of login and database.
    for (const database of scene.databases) assert.is(await codeOf({ database }), '28000', database);
  });

  for (const [what, role] of [
    ['the superuser', () => scene.superuser],
    ['the neighbour', () => ownerRole(idOf(scene.victim))],
    ['its own authenticator', () => authenticatorRole(idOf(scene.mallory))],
    ['the owner of its accounts', () => authAdminRole(idOf(scene.mallory))],
    ['a shared role', () => 'service_role'],
  ] as const) {
    test(`the password of db_url does not log in ${what}`, async () => {
      const code = await codeOf({ user: role() });
      assert.ok(['28P01', '28000'].includes(code), code);
    });
  }
}

const login = (scene: Scene, { project }: Customer) => scene.platform.network.postgres(project.db_url);

async function connectCode(as: Login): Promise<string> {
  const client = new pg.Client(as);
  try {
    await client.connect();
    return 'connected';
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.end().catch(() => {});
  }
}

// ——— SQL, over the query route and over db_url ———

const SQL_ATTACKS: [string, (victimId: string, superuser: string) => string][] = [
  ['run a program', () => `COPY (SELECT 1) TO PROGRAM 'id'`],
  ['read a program', () => `CREATE TEMP TABLE t (x text); COPY t FROM PROGRAM 'id'`],
  ['read a file', () => `SELECT pg_read_file('/etc/passwd')`],
  ['write a file', () => `COPY (SELECT 1) TO '/tmp/slipway-attack'`],
  ['become the superuser', (_, superuser) => `SET ROLE ${superuser}`],
  ['become the superuser after RESET ROLE', (_, superuser) => `RESET ROLE; SET ROLE ${superuser}`],
  [
    'become the superuser after RESET SESSION AUTHORIZATION',
    (_, superuser) => `RESET SESSION AUTHORIZATION; SET ROLE ${superuser}`,
  ],
  ['become the neighbour', (id) => `SET ROLE ${pg.escapeIdentifier(ownerRole(id))}`],
  ['change the server', () => `ALTER SYSTEM SET log_statement = 'all'`],
  ['make a superuser', () => 'CREATE ROLE evil SUPERUSER LOGIN'],
  ['make itself a superuser', () => 'ALTER ROLE CURRENT_USER SUPERUSER'],
  ['bypass row-level security', () => 'ALTER ROLE CURRENT_USER BYPASSRLS'],
  ['connect to the server itself with dblink', () => 'CREATE EXTENSION dblink SCHEMA extensions'],
  ['connect to the server itself with postgres_fdw', () => 'CREATE EXTENSION postgres_fdw'],
  [
    'connect to the server itself with a subscription',
    () => `CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1' PUBLICATION p`,
  ],
  ['run Python', () => 'CREATE EXTENSION plpython3u'],
  ['retain the log with a slot', () => `SELECT pg_create_logical_replication_slot('evil', 'pgoutput')`],
  ['read passwords', () => 'SELECT rolpassword FROM pg_authid'],
  ['see the queries of others', () => 'SELECT query FROM pg_stat_activity'],
  ['drop the neighbour’s database', (id) => `DROP DATABASE ${pg.escapeIdentifier(databaseOf(id))}`],
  [
    'open the neighbour’s database',
    (id) => `GRANT CONNECT ON DATABASE ${pg.escapeIdentifier(databaseOf(id))} TO PUBLIC`,
  ],
  [
    'make an event trigger',
    () => 'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION extensions.pgrst_ddl_watch()',
  ],
];

function bySql(test: Test, scene: Scene): void {
  for (const [what, statement] of SQL_ATTACKS) {
    const sql = () => statement(idOf(scene.victim), scene.superuser);

    test(`SQL over the query route cannot ${what}`, async () => {
      const { status, body } = await scene.mallory.person.call<{ sqlstate: string }>(
        'POST',
        `/projects/${scene.mallory.project.id}/query`,
        { sql: sql() },
      );
      assert.is(status, 400);
      assert.is(body.sqlstate, '42501');
    });

    test(`SQL over db_url cannot ${what}`, async () => {
      const client = new pg.Client(await login(scene, scene.mallory));
      await client.connect();
      try {
        const code = await client.query(sql()).then(
          () => 'allowed',
          (error) => error.code,
        );
        assert.is(code, '42501');
      } finally {
        await client.end();
      }
    });
  }

  test('a setting of one query does not affect the next query', async () => {
    await scene.mallory.person.query(
      scene.mallory.project.id,
      `SET search_path = evil; SET ROLE anon; PREPARE p AS SELECT 1`,
    );
    const { rows } = await scene.mallory.person.query(
      scene.mallory.project.id,
      `SELECT current_user::text AS name, (SELECT count(*)::int FROM pg_prepared_statements) AS prepared`,
    );
    assert.equal(rows, [{ name: ownerRole(idOf(scene.mallory)), prepared: 0 }]);
  });
}

// ——— tokens at the data plane ———

function withTokens(test: Test, scene: Scene): void {
  const service = () => ({ role: 'service_role', iss: 'slipway', ref: scene.victim.project.ref, exp: inAnHour() });
  const TOKENS: [string, () => string][] = [
    ['without a signature (alg none)', () => forge({ alg: 'none' }, service())],
    ['without a signature (alg nOnE)', () => forge({ alg: 'nOnE' }, service(), '')],
    ['without an alg', () => forge({}, service(), 'x')],
    ['signed with another key', () => forge({ alg: 'HS256' }, service(), 'another secret of enough characters')],
    ['signed with an empty key', () => forge({ alg: 'HS256' }, service(), '')],
    ['signed with the anon key as the secret', () => forge({ alg: 'HS256' }, service(), scene.victim.project.anon_key)],
    ['with RS256 in the header of an HMAC', () => forge({ alg: 'RS256' }, service(), scene.victim.project.anon_key)],
    ['whose kid is a path', () => forge({ alg: 'HS256', kid: '../../../../dev/null' }, service(), '')],
    ['that contains its key', () => forge({ alg: 'HS256', jwk: { kty: 'oct', k: 'eA' } }, service(), 'x')],
    ['that is the neighbour’s service_role key', () => scene.mallory.project.service_role_key],
    ['that is the neighbour’s anon key', () => scene.mallory.project.anon_key],
    ['that is a personal access token', () => scene.victim.person.token],
    ['that is not a token', () => 'x.y.z'],
  ];

  for (const [what, token] of TOKENS) {
    test(`REST rejects a token ${what}`, async () => {
      for (const headers of [bearer(token()), bearer(scene.victim.project.anon_key, token())]) {
        const response = await scene.platform.network.fetch(`${scene.victim.project.postgrest_url}/todos`, { headers });
        assert.is(response.status, 401, JSON.stringify(headers));
        assert.not.match(await response.text(), /secret of the victim/);
      }
    });

    test(`auth's admin routes reject a token ${what}`, async () => {
      const response = await scene.platform.network.fetch(`${scene.victim.project.project_url}/auth/v1/admin/users`, {
        headers: bearer(scene.victim.project.anon_key, token()),
      });
      assert.ok([401, 403].includes(response.status), String(response.status));
      assert.not.match(await response.text(), /eve@example\.com/);
    });
  }

  test('a request without a key gets 401, from REST and from auth', async () => {
    for (const route of ['rest/v1/todos', 'auth/v1/user', 'auth/v1/admin/users']) {
      assert.is(
        (await scene.platform.network.fetch(`${scene.victim.project.project_url}/${route}`)).status,
        401,
        route,
      );
    }
  });

  test('the anon key and a user’s token are rejected on admin routes', async () => {
    for (const token of [scene.victim.project.anon_key, scene.victimUserToken]) {
      for (const [method, route] of [
        ['GET', 'admin/users'],
        ['POST', 'admin/users'],
        ['DELETE', 'admin/users/00000000-0000-0000-0000-000000000000'],
      ] as const) {
        const response = await scene.platform.network.fetch(`${scene.victim.project.project_url}/auth/v1/${route}`, {
          method,
          headers: bearer(scene.victim.project.anon_key, token),
        });
        assert.ok([401, 403].includes(response.status), `${method} ${route}: ${response.status}`);
      }
    }
  });

  test('a user’s own metadata never sets the role', async () => {
    const client = clientOf(scene.mallory.project, scene.platform.network);
    await scene.mallory.person.query(
      scene.mallory.project.id,
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

  test('the management API rejects tokens for the data plane, including service_role keys', async () => {
    for (const token of [scene.victim.project.service_role_key, scene.victim.project.anon_key, scene.victimUserToken]) {
      const response = await scene.platform.network.fetch(`${scene.platform.url}/projects`, {
        headers: { authorization: `Bearer ${token}` },
      });
      assert.is(response.status, 401);
    }
  });
}

// ——— the platform's own routes ———

/** Tests how a browser treats a project's responses, and responses to pages of foreign sites. */
function inBrowsers(test: Test, scene: Scene): void {
  const HEADERS = [
    { 'Content-Type': 'text/html' },
    { 'Service-Worker-Allowed': '/' },
    { 'Set-Cookie': 'own=1; Path=/' },
    { 'Set-Cookie': 'wide=1; Path=/; Domain=example.com' },
    { 'Clear-Site-Data': '"*"' },
    { 'X-Accel-Redirect': '/internal' },
  ];

  test('a project’s response can’t change state of a shared origin or site', async () => {
    const { person, project } = scene.mallory;
    await person.query(
      project.id,
      `create function hostile() returns text language plpgsql as $$ begin
         perform set_config('response.headers', '${JSON.stringify(HEADERS)}', true);
         return '<script></script>';
       end $$; notify pgrst, 'reload schema'`,
    );
    const url = `${project.project_url}/rest/v1/rpc/hostile`;
    const response = await until(async () => {
      const answer = await scene.platform.network.fetch(url, { headers: { apikey: project.anon_key } });
      return answer.status === 200 ? answer : undefined;
    }, 'the function is known');
    const { headers } = response;
    for (const name of ['clear-site-data', 'x-accel-redirect']) assert.is(headers.get(name), null, name);
    assert.not.match(headers.get('set-cookie') ?? '', /domain/i);
    if (new URL(project.project_url).pathname === '/') return;
    for (const name of ['service-worker-allowed', 'set-cookie']) assert.is(headers.get(name), null, name);
    assert.match(headers.get('content-security-policy') ?? '', /(^|, )sandbox (?!.*allow-same-origin)/);
    assert.is(headers.get('x-content-type-options'), 'nosniff');
  });

  test('a link with a project’s key is rejected', async () => {
    const { project } = scene.mallory;
    const url = `${project.project_url}/rest/v1/rpc/hostile?apikey=${project.anon_key}`;
    assert.is((await scene.platform.network.fetch(url)).status, 401);
  });

  test('a page of a project or of a foreign site can neither write nor read at the API', async () => {
    const origins = ['null', 'https://evil.example', new URL(scene.mallory.project.project_url).origin];
    const { url, network } = scene.platform;
    for (const origin of origins.filter((each) => each !== new URL(url).origin)) {
      const body = JSON.stringify({ email: `${randomUUID()}@example.com`, password: 'a long password' });
      const headers = { origin, 'content-type': 'application/json' };
      const written = await network.fetch(`${url}/auth/register`, { method: 'POST', headers, body });
      assert.is(written.status, 403, origin);
      const read = await network.fetch(`${url}/openapi.json`, { headers: { origin } });
      assert.is(read.headers.get('access-control-allow-origin'), null, origin);
    }
  });
}

function atTheApi(test: Test, scene: Scene): void {
  /**
   * Routes that need a key of the project instead of an account. A response to a request without a key reveals nothing
   * else.
   */
  const KEYED_ROUTES = ['POST /projects/{id}/mcp'];

  interface Operation {
    parameters?: { in: string; name: string; required?: boolean; schema?: { enum?: string[] } }[];
    requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> };
  }

  function queryOf(parameters: NonNullable<Operation['parameters']>): string {
    const required = parameters.filter((each) => each.in === 'query' && each.required);
    return required.length === 0 ? '' : `?${required.map(({ name }) => `${name}=x`).join('&')}`;
  }

  /** Returns the path with the victim's project and values that the parameters may have. */
  function pathOf(route: string, parameters: NonNullable<Operation['parameters']>): string {
    const allowed = (name: string) => parameters.find((each) => each.name === name)?.schema?.enum?.[0] ?? '1';
    return route
      .replace('{id}', String(scene.victim.project.id))
      .replaceAll(/\{(\w+)\}/g, (_, name: string) => allowed(name));
  }

  /**
   * Returns each route under /projects/{id} in the API's document, for the victim's project, with a valid path, body
   * and query.
   */
  async function routesOfOneProject() {
    const document = await (await scene.platform.network.fetch(`${scene.platform.url}/openapi.json`)).json();
    const { paths } = document as { paths: Record<string, Record<string, Operation>> };
    return Object.entries(paths)
      .filter(([route]) => /^\/projects\/\{id\}(\/|$)/.test(route))
      .flatMap(([route, operations]) =>
        Object.entries(operations).map(([method, { parameters = [], requestBody }]) => ({
          method: method.toUpperCase(),
          route: pathOf(route, parameters) + queryOf(parameters),
          body: Object.values(requestBody?.content['application/json']?.examples ?? {})[0]?.value,
        })),
      );
  }

  test('every route of a neighbour’s project returns 404, like the route of a missing project', async () => {
    const { body: missing } = await scene.mallory.person.call<{ detail: string }>('GET', '/projects/2147483647');
    const routes = await routesOfOneProject();
    assert.ok(routes.length >= 15, 'the document lists the routes');
    for (const { method, route, body } of routes) {
      const answer = await scene.mallory.person.call<{ detail: string }>(method, route, body);
      if (KEYED_ROUTES.includes(`${method} ${route.replace(/\d+/, '{id}')}`)) {
        assert.is(answer.status, 401, `${method} ${route}`);
        continue;
      }
      assert.is(answer.status, 404, `${method} ${route}`);
      assert.is(answer.body.detail.replaceAll(/\d+/g, ''), missing.detail.replaceAll(/\d+/g, ''));
    }
    const { body: listed } = await scene.mallory.person.call<ProjectView[]>('GET', '/projects');
    assert.equal(
      listed.map(({ id }) => id),
      [scene.mallory.project.id],
    );
  });

  test('a token without the scope is rejected with the name of the missing scope', async () => {
    const { body: token } = await scene.victim.person.call<{ token: string }>('POST', '/tokens', {
      name: 'reader',
      scopes: ['projects:read'],
    });
    for (const [method, route, body, scope] of [
      ['POST', '/projects', { name: 'more' }, 'projects:write'],
      ['DELETE', `/projects/${scene.victim.project.id}`, undefined, 'projects:delete'],
      ['POST', `/projects/${scene.victim.project.id}/query`, { sql: 'select 1' }, 'database:query'],
      ['POST', '/tokens', { name: 'grown' }, 'tokens:write'],
    ] as const) {
      const response = await scene.platform.network.fetch(`${scene.platform.url}${route}`, {
        method,
        headers: { authorization: `Bearer ${token.token}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      assert.is(response.status, 403, route);
      assert.match(await response.text(), new RegExp(scope));
    }
  });

  test('the Kubernetes API rejects requests without a token', async () => {
    const { clusters } = parse(await readFile(scene.platform.kubeconfig, 'utf8'));
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      for (const token of [undefined, 'x', scene.mallory.person.token, scene.mallory.project.service_role_key]) {
        const response = await fetch(`${clusters[0].cluster.server}/apis/${API_VERSION}/projects`, {
          headers: token ? { authorization: `Bearer ${token}` } : {},
        });
        // A real API server responds 403 to a request without any token.
        assert.ok(response.status === 401 || (!token && response.status === 403), String(response.status));
      }
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
  });
}

// ——— noisy neighbours ———

function asNoisyNeighbour(test: Test, scene: Scene): void {
  test('endless queries and a flood of connections are limited, and the neighbour is still served', async () => {
    const endless = Array.from({ length: 16 }, () =>
      scene.mallory.person.call('POST', `/projects/${scene.mallory.project.id}/query`, { sql: 'select pg_sleep(3)' }),
    );
    const flood = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const client = new pg.Client(await login(scene, scene.mallory));
        return client.connect().then(
          () => client,
          () => undefined,
        );
      }),
    );
    const open = flood.filter((client) => client !== undefined);
    try {
      assert.ok(open.length < 60, 'the role’s connection limit applies');
      const read = await scene.platform.network.fetch(`${scene.victim.project.postgrest_url}/todos?select=task`, {
        headers: bearer(scene.victim.project.anon_key, scene.victimUserToken),
      });
      assert.equal(await read.json(), [{ task: 'secret of the victim' }]);
      assert.is(await connectCode(await login(scene, scene.victim)), 'connected');
    } finally {
      await Promise.all(open.map((client) => client.end()));
    }
    const statuses = (await Promise.all(endless)).map(({ status }) => status);
    assert.ok(statuses.includes(429), `queries above the project’s concurrency limit are refused: ${statuses}`);
  });
}

// ——— afterwards ———

function afterwards(test: Test, scene: Scene): void {
  test('the neighbour’s row is unchanged and both projects are healthy after all attacks', async () => {
    const read = await scene.platform.network.fetch(`${scene.victim.project.postgrest_url}/todos?select=task`, {
      headers: bearer(scene.victim.project.anon_key, scene.victimUserToken),
    });
    assert.equal(await read.json(), [{ task: 'secret of the victim' }]);
    for (const { person, project } of [scene.mallory, scene.victim]) await person.untilHealthy(project.id);
  });

  test('no key, password or token is in a log, a resource, an event or a process’s arguments', async () => {
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
      const { status } = await scene.victim.person.call('POST', route, account);
      assert.ok(status < 300, `${route}: ${status}`);
    }
    const created = await scene.victim.person.call<ProjectView>('POST', '/projects', {
      name: 'canary',
      plan: scene.plan,
      jwt_secret: planted.jwt,
    });
    assert.is(created.status, 201);
    const changed = await scene.victim.person.call('PATCH', `/projects/${created.body.id}`, {
      github_token: planted.git,
      env_vars: { CANARY: planted.env },
      slack_webhook: planted.slack,
    });
    assert.is(changed.status, 200, JSON.stringify(changed.body));
    const third = (await scene.victim.person.untilHealthy(created.body.id)) as Customer['project'];
    await callWebhooks(scene, third);
    const secrets = [scene.mallory.project, scene.victim.project, third].flatMap((project) => [
      project.anon_key,
      project.service_role_key,
      project.webhook_secret,
      loginOf(project.db_url).password,
    ]);
    secrets.push(...Object.values(planted), password, scene.mallory.person.token, scene.victim.person.token);
    secrets.push(scene.victimUserToken, 'a long password', ...(await scene.secrets()));
    const places = [...(await scene.written()), ...(await resources(scene.platform))];
    assert.ok(places.length > 0, 'the platform has written something');
    for (const [place, text] of places) {
      for (const secret of secrets) assert.not.ok(text.includes(secret), `${place} holds ${secret.slice(0, 12)}…`);
    }
  });
}

/** Calls the webhook. Its token is in the URL of the request. */
async function callWebhooks({ platform }: Scene, { id, webhook_secret }: Customer['project']): Promise<void> {
  const address = `${platform.url}/projects/${id}/deploy?token=${webhook_secret}`;
  for (const [url, status] of [
    [address, 400],
    [`${address}x`, 401],
  ] as const) {
    const body = `payload=${'x'.repeat(512 * 1024)}`;
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const response = await platform.network.fetch(url, { method: 'POST', headers, body });
    assert.is(response.status, status, await response.text());
  }
}

async function resources({ kubeconfig }: Platform): Promise<Place[]> {
  if (!kubectlIsThere) return [];
  const commands = [
    ['get', 'projects,events', '-A', '-o', 'yaml'],
    ['describe', 'projects'],
  ];
  return Promise.all(commands.map(async (command) => [command.join(' '), await kubectl(kubeconfig, command)] as const));
}
