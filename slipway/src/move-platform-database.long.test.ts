/**
 * Tests moves of the platform's database between two real servers, with an interruption before each of the statements.
 */
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { type Connect, PLATFORM_DATABASE, preparePlatformDatabase } from '@slipway/project-database';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  dropMovedDatabase,
  leaveTenantsServer,
  movePlatformDatabase,
  mustMove,
  type Servers,
} from './move-platform-database.js';

/**
 * Settings of servers without fsync, with which databases are created and dropped faster. No test in this file kills a
 * server.
 */
const UNSYNCED = { fsync: 'off', full_page_writes: 'off' };
const PASSWORDS = { apiserver: 'of-the-api-server', api: 'of-the-api' };

const test = suite<{ tenants: TestPostgres; platform: TestPostgres }>('platform database move');
test.before(async (context) => {
  [context.tenants, context.platform] = await Promise.all([startTestPostgres(UNSYNCED), startTestPostgres(UNSYNCED)]);
});
test.after(async ({ tenants, platform }) => {
  await Promise.all([tenants.close(), platform.close()]);
});

const connectTo =
  (postgres: TestPostgres): Connect =>
  async (database) => {
    const client = new pg.Client(postgres.admin(database));
    client.on('error', () => {});
    await client.connect();
    return client;
  };

const serversOf = ({ tenants, platform }: { tenants: TestPostgres; platform: TestPostgres }): Servers => ({
  tenants: connectTo(tenants),
  platform: connectTo(platform),
});

async function rows(connect: Connect, database: string, sql: string) {
  const session = await connect(database);
  try {
    return (await session.query(sql)).rows;
  } finally {
    await session.end();
  }
}

/** SQL for an earlier release's database, with each kind of object that its migrations made. */
const TABLES = `
  SET ROLE slipway_apiserver;
  CREATE TABLE kube.objects (name text COLLATE "C" PRIMARY KEY, value text, sealed bytea, revision bigint NOT NULL,
    CHECK ((value IS NULL) <> (sealed IS NULL)));
  INSERT INTO kube.objects SELECT 'object-' || n, repeat('v', n), NULL, n FROM generate_series(1, 500) n;
  INSERT INTO kube.objects VALUES ('sealed', NULL, '\\x00ff', 501);
  CREATE TABLE kube.counter (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), revision bigint NOT NULL);
  INSERT INTO kube.counter (revision) VALUES (501);
  SET ROLE slipway_api;
  CREATE TABLE platform.migrations (id serial PRIMARY KEY, name varchar(255),
    executed_at timestamptz DEFAULT current_timestamp);
  INSERT INTO platform.migrations (name) VALUES ('0001_accounts'), ('0002_projects');
  CREATE TABLE platform.users (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now());
  INSERT INTO platform.users (email) SELECT n || '@example.com' FROM generate_series(1, 20) n;
  DELETE FROM platform.users WHERE id > 18;
  CREATE TABLE platform.tokens (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id integer NOT NULL REFERENCES platform.users ON DELETE CASCADE, scopes text[] NOT NULL, dropped text);
  ALTER TABLE platform.tokens DROP COLUMN dropped;
  INSERT INTO platform.tokens (user_id, scopes) VALUES (7, '{read,"a,b"}');
  CREATE INDEX ON platform.tokens (user_id);
  CREATE TABLE platform.unused (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
`;

const CONTENT = `
  SELECT (SELECT md5(string_agg(o::text, ';' ORDER BY name)) FROM kube.objects o) AS objects,
    (SELECT revision FROM kube.counter) AS revision,
    (SELECT json_agg(m ORDER BY id) FROM platform.migrations m) AS migrations,
    (SELECT json_agg(u ORDER BY id) FROM platform.users u) AS users,
    (SELECT json_agg(t ORDER BY id) FROM platform.tokens t) AS tokens,
    (SELECT json_agg(format('%s %s %s %s', schemaname, sequencename, sequenceowner, last_value)
       ORDER BY sequencename) FROM pg_sequences) AS sequences,
    (SELECT json_agg(format('%s %s', tablename, tableowner) ORDER BY tablename)
     FROM pg_tables WHERE schemaname IN ('kube', 'platform')) AS tables,
    (SELECT json_agg(indexdef ORDER BY indexname) FROM pg_indexes WHERE schemaname IN ('kube', 'platform')) AS indexes,
    (SELECT json_agg(format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
       ORDER BY conrelid::regclass::text, conname)
     FROM pg_constraint WHERE connamespace IN ('kube'::regnamespace, 'platform'::regnamespace)) AS constraints,
    (SELECT json_agg(format('%s %s %s %s %s', table_name, column_name, data_type, column_default, is_nullable)
       ORDER BY table_name, column_name)
     FROM information_schema.columns WHERE table_schema IN ('kube', 'platform')) AS columns`;

/** Runs all steps of a start. */
async function start(servers: Servers): Promise<void> {
  if (await mustMove(servers)) await movePlatformDatabase(servers);
  await preparePlatformDatabase(servers.platform, PASSWORDS);
  await leaveTenantsServer(servers);
  await dropMovedDatabase(servers);
}

class Killed extends Error {}

/** Returns sessions that fail before the statement with this number, like the sessions of a killed process. */
function brokenBefore(number: number, servers: Servers, statements: string[] = []): Servers {
  const breaking =
    (connect: Connect): Connect =>
    async (database) => {
      const session = await connect(database);
      return {
        query: async (sql) => {
          statements.push(sql);
          if (statements.length >= number) throw new Killed(sql);
          return session.query(sql);
        },
        end: () => session.end(),
      };
    };
  return { tenants: breaking(servers.tenants), platform: breaking(servers.platform) };
}

async function reset(servers: Servers): Promise<void> {
  for (const connect of [servers.tenants, servers.platform]) {
    const found = await rows(
      connect,
      'postgres',
      `SELECT datname FROM pg_database WHERE datname LIKE 'slipway%' AND datname <> 'slipway_seed'`,
    );
    for (const { datname } of found) await rows(connect, 'postgres', `DROP DATABASE ${datname} WITH (FORCE)`);
  }
  await rows(servers.platform, 'postgres', 'DROP ROLE IF EXISTS slipway_api, slipway_apiserver');
  const isSeeded = await rows(servers.tenants, 'postgres', `SELECT FROM pg_database WHERE datname = 'slipway_seed'`);
  if (isSeeded.length === 0) {
    await preparePlatformDatabase(servers.tenants, PASSWORDS);
    await rows(servers.tenants, PLATFORM_DATABASE, TABLES);
    await rows(servers.tenants, 'postgres', `ALTER DATABASE ${PLATFORM_DATABASE} RENAME TO slipway_seed`);
  }
  await rows(servers.tenants, 'postgres', `CREATE DATABASE ${PLATFORM_DATABASE} TEMPLATE slipway_seed`);
}

test('a platform database moves completely, and an earlier release can no longer use its old name', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  const [before] = await rows(servers.tenants, PLATFORM_DATABASE, CONTENT);
  await start(servers);
  const [after] = await rows(servers.platform, PLATFORM_DATABASE, CONTENT);
  assert.equal(after, before);
  const asApi = { ...context.platform.admin(PLATFORM_DATABASE), user: 'slipway_api', password: PASSWORDS.api };
  const api = new pg.Client(asApi);
  await api.connect();
  const made = await api.query(`INSERT INTO platform.users (email) VALUES ('next@example.com') RETURNING id`);
  await api.end();
  assert.is(made.rows[0].id, 21, 'identities continue after the last value');
  const refusal = await rows(servers.tenants, PLATFORM_DATABASE, 'SELECT 1').catch(({ code }) => code);
  assert.is(refusal, '55000');
});

test('a move that is killed before any of its statements is completed by the next start', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  const [before] = await rows(servers.tenants, PLATFORM_DATABASE, CONTENT);
  const statements: string[] = [];
  await start(brokenBefore(Number.POSITIVE_INFINITY, servers, statements));
  for (const number of momentsOf(statements)) {
    await reset(servers);
    const killed = await start(brokenBefore(number, servers)).catch((error) => error);
    assert.instance(killed, Killed);
    await start(servers);
    const where = `killed before ${statements[number - 1]}`;
    assert.equal((await rows(servers.platform, PLATFORM_DATABASE, CONTENT))[0], before, where);
    const left = await rows(
      servers.tenants,
      'postgres',
      `SELECT datname FROM pg_database WHERE datname LIKE 'slipway%' ORDER BY 1`,
    );
    assert.equal(left, [{ datname: 'slipway' }, { datname: 'slipway_seed' }], where);
  }
});

/**
 * Returns the positions of the statements with a permanent effect. The copy is one transaction, so only its first row,
 * its last statement and its end count.
 */
function momentsOf(statements: string[]): number[] {
  const lasting = /^(ALTER DATABASE|CREATE DATABASE|DROP DATABASE|BEGIN; |COMMENT|ALTER ROLE|DROP ROLE|COMMIT|ANALYZE)/;
  const moments = statements.flatMap((sql, at) => (lasting.test(sql) ? [at + 1] : []));
  return [...moments, statements.findIndex((sql) => sql.includes(' FROM ') && sql.startsWith('COPY')) + 1];
}

test('a start refuses and changes nothing when both servers have an open platform database', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  await start(servers);
  await rows(servers.tenants, 'postgres', `DROP DATABASE ${PLATFORM_DATABASE}`);
  await rows(servers.tenants, 'postgres', `CREATE DATABASE ${PLATFORM_DATABASE} TEMPLATE slipway_seed`);
  await rows(servers.tenants, PLATFORM_DATABASE, `INSERT INTO kube.objects VALUES ('written later', 'x', NULL, 502)`);
  const problem = await start(servers).catch((error) => error.message);
  assert.match(problem, /the folders postgres and platform-postgres of SLIPWAY_HOME each hold a database "slipway"/);
  const count = async (connect: Connect) =>
    (await rows(connect, PLATFORM_DATABASE, 'SELECT count(*)::int AS n FROM kube.objects'))[0];
  assert.equal([await count(servers.tenants), await count(servers.platform)], [{ n: 502 }, { n: 501 }]);
});

test('a move counts the copied bytes, and keeps the original renamed until the start has ended', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  const copied: [done: number, total: number][] = [];
  await movePlatformDatabase(servers, (done, total) => void copied.push([done, total]));
  const [last] = copied.slice(-1);
  assert.ok(copied.length > 1 && last && last[0] > 0 && last[0] === last[1], `copied bytes: ${copied.join('; ')}`);
  await preparePlatformDatabase(servers.platform, PASSWORDS);
  await leaveTenantsServer(servers);
  await leaveTenantsServer(servers);
  assert.is(await mustMove(servers), false);
  await rows(servers.tenants, 'postgres', 'ALTER DATABASE slipway_moved ALLOW_CONNECTIONS true');
  const kept = await rows(servers.tenants, 'slipway_moved', 'SELECT count(*)::int AS n FROM kube.objects');
  assert.equal(kept, [{ n: 501 }]);
  await start(servers);
  assert.equal(await rows(servers.tenants, 'postgres', `SELECT FROM pg_database WHERE datname = 'slipway_moved'`), []);
});

test('a start fails and creates nothing when the platform’s server has lost the database', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  await start(servers);
  await rows(servers.platform, 'postgres', `DROP DATABASE ${PLATFORM_DATABASE}`);
  const problem = await start(servers).catch((error) => error.message);
  assert.match(problem, /the folder platform-postgres of SLIPWAY_HOME holds no database "slipway"/);
  assert.equal(await rows(servers.platform, 'postgres', `SELECT FROM pg_database WHERE datname LIKE 'slipway%'`), []);
});

test('a database is not moved when an object can’t be copied, and the error names the object', async (context) => {
  const servers = serversOf(context);
  await reset(servers);
  await rows(servers.tenants, PLATFORM_DATABASE, 'CREATE VIEW platform.of_somebody AS SELECT 1 AS one');
  const problem = await start(servers).catch((error) => error.message);
  assert.is(problem, "the platform's database has the relation of_somebody, which cannot be copied");
  assert.equal(await rows(servers.tenants, PLATFORM_DATABASE, 'SELECT one FROM platform.of_somebody'), [{ one: 1 }]);
});

test.run();
