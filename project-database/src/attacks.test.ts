/**
 * Attacks by a tenant, with its own roles, on the platform and on another project. Each attack is rejected and has no
 * effect.
 */
import { until } from '@slipway/testing';
import type pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { dropDatabase, dropGoneRoles } from './spare.js';
import { startTestProjects, type TestProjects } from './testing.js';

const test = suite<{ projects: TestProjects }>('attacks from inside a project’s database');

test.before(async (context) => {
  context.projects = await startTestProjects();
  await context.projects.create('mallory');
  await context.projects.create('victim');
  const victim = await context.projects.login('victim', 'owner');
  await victim.query(`
    CREATE TABLE secrets (id int PRIMARY KEY, body text);
    INSERT INTO secrets VALUES (1, 'of the victim');
    INSERT INTO auth.users (id, email) VALUES (gen_random_uuid(), 'victim@example.com')`);
  await victim.end();
});

test.after(async ({ projects }) => {
  await projects.close();
});

/** Returns the SQLSTATE of the rejection. Everything before the failing statement is rolled back. */
async function refusal(client: pg.Client, sql: string): Promise<string> {
  try {
    await client.query(sql);
    return 'allowed';
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.query('ROLLBACK; RESET ROLE').catch(() => {});
  }
}

const DENIED = '42501';
/** Attacks by the owner role, whose SQL comes through the query route and through db_url. */
const refused: [string, string, string][] = [
  ['run a program', `COPY (SELECT 1) TO PROGRAM 'id'`, DENIED],
  ['read from a program', `CREATE TEMP TABLE t (x text); COPY t FROM PROGRAM 'id'`, DENIED],
  ['write a file of the server', `COPY (SELECT 1) TO '/tmp/slipway-attack'`, DENIED],
  ['read a file of the server', `SELECT pg_read_file('/etc/passwd')`, DENIED],
  ['list a folder of the server', `SELECT pg_ls_dir('/')`, DENIED],
  ['import a file as a large object', `SELECT lo_import('/etc/passwd')`, DENIED],
  ['change the server’s settings', `ALTER SYSTEM SET log_statement = 'all'`, DENIED],
  ['load a library', `LOAD '/tmp/evil.so'`, DENIED],
  ['write a function in C', `CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/evil.so', 'f'`, DENIED],
  ['write an internal function', `CREATE FUNCTION f() RETURNS int LANGUAGE internal AS 'pg_backend_pid'`, DENIED],
  ['make a superuser', 'CREATE ROLE evil SUPERUSER', DENIED],
  ['make a role', 'CREATE ROLE evil', DENIED],
  ['make a database', 'CREATE DATABASE evil', DENIED],
  ['become a superuser', 'ALTER ROLE "postgres.mallory" SUPERUSER', DENIED],
  ['bypass row-level security itself', 'ALTER ROLE "postgres.mallory" BYPASSRLS', DENIED],
  ['raise its number of connections', 'ALTER ROLE "postgres.mallory" CONNECTION LIMIT -1', DENIED],
  ['raise its disk for temporary files', "SET temp_file_limit = '-1'", DENIED],
  [
    'reset its limit of temporary files',
    'SET temp_file_limit TO DEFAULT; ALTER ROLE "postgres.mallory" SET temp_file_limit = -1',
    DENIED,
  ],
  ['become the superuser', 'SET ROLE slipway', DENIED],
  ['become a neighbour', 'SET ROLE "postgres.victim"', DENIED],
  ['become its own authenticator', 'SET ROLE "authenticator.mallory"', DENIED],
  ['become the owner of the accounts', 'SET ROLE "auth_admin.mallory"', DENIED],
  ['become the owner of all accounts', 'SET ROLE supabase_auth_admin', DENIED],
  ['become the owner of the template’s accounts', 'SET ROLE slipway_template_auth_admin', DENIED],
  ['log in as another in the session', 'SET SESSION AUTHORIZATION slipway', DENIED],
  ['become a member of another owner', 'GRANT "postgres.victim" TO "postgres.mallory"', DENIED],
  ['grant a shared role to another', 'GRANT service_role TO anon', DENIED],
  ['allow login to a shared role', 'ALTER ROLE anon LOGIN', DENIED],
  ['drop a shared role', 'DROP ROLE anon', DENIED],
  ['change a neighbour’s password', `ALTER ROLE "postgres.victim" PASSWORD 'x'`, DENIED],
  ['change its own authenticator’s password', `ALTER ROLE "authenticator.mallory" PASSWORD 'x'`, DENIED],
  ['rename its database', 'ALTER DATABASE "p-mallory" RENAME TO "p-other"', DENIED],
  ['give its database away', 'ALTER DATABASE "p-mallory" OWNER TO postgres', DENIED],
  ['drop a neighbour’s database', 'DROP DATABASE "p-victim"', DENIED],
  ['drop its own database while in it', 'DROP DATABASE "p-mallory"', '55006'],
  ['change a setting of a neighbour’s database', `ALTER DATABASE "p-victim" SET search_path = evil`, DENIED],
  ['open a neighbour’s database', 'GRANT CONNECT ON DATABASE "p-victim" TO PUBLIC', DENIED],
  ['read passwords', 'SELECT * FROM pg_authid', DENIED],
  ['see the sessions of others', 'SELECT * FROM pg_stat_activity', DENIED],
  ['see the sessions of others through the function', 'SELECT * FROM pg_stat_get_activity(NULL)', DENIED],
  ['read the settings files', 'SELECT * FROM pg_file_settings', DENIED],
  ['install dblink', 'CREATE EXTENSION dblink', DENIED],
  ['install postgres_fdw', 'CREATE EXTENSION postgres_fdw', DENIED],
  ['install file_fdw', 'CREATE EXTENSION file_fdw', DENIED],
  ['install refint', 'CREATE EXTENSION refint', DENIED],
  ['install adminpack’s successors', 'CREATE EXTENSION pageinspect', DENIED],
  ['install an untrusted language', 'CREATE EXTENSION plpython3u', DENIED],
  [
    'make an event trigger',
    'CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$; ' +
      'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION e()',
    DENIED,
  ],
  [
    'replace our event trigger’s function',
    'CREATE OR REPLACE FUNCTION extensions.pgrst_ddl_watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$',
    DENIED,
  ],
  ['drop our event trigger', 'DROP EVENT TRIGGER pgrst_ddl_watch', DENIED],
  ['switch event triggers off', 'SET event_triggers = off', DENIED],
  ['drop the schema with our functions', 'DROP SCHEMA extensions CASCADE', DENIED],
  [
    'replace auth.uid()',
    'CREATE OR REPLACE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$',
    DENIED,
  ],
  ['make objects in schema auth', 'CREATE TABLE auth.evil (id int)', DENIED],
  ['drop the accounts', 'DROP TABLE auth.users CASCADE', DENIED],
  ['publish all tables', 'CREATE PUBLICATION evil FOR ALL TABLES', DENIED],
  ['subscribe to a server', `CREATE SUBSCRIPTION evil CONNECTION 'host=127.0.0.1' PUBLICATION evil`, DENIED],
  ['make a replication slot', `SELECT pg_create_physical_replication_slot('evil')`, DENIED],
  ['make a logical slot', `SELECT pg_create_logical_replication_slot('evil', 'pgoutput')`, DENIED],
  ['make a tablespace', `CREATE TABLESPACE evil LOCATION '/tmp'`, DENIED],
  ['make a foreign-data wrapper', 'CREATE FOREIGN DATA WRAPPER evil', DENIED],
  ['write to the catalogue', `UPDATE pg_database SET datacl = NULL`, DENIED],
  ['turn off constraint triggers', `SET session_replication_role = replica`, DENIED],
];

test('the owner sees the sessions and locks of its database by the views that the documentation names', async ({
  projects,
}) => {
  const [client, other] = [await projects.login('mallory', 'owner'), await projects.login('mallory', 'owner')];
  try {
    await client.query('CREATE TABLE locked (id int)');
    await client.query('BEGIN; LOCK TABLE locked');
    const waiting = other.query('TABLE locked').catch(({ code }) => code);
    const {
      rows: [{ pid: own }],
    } = await client.query('SELECT pg_backend_pid() AS pid');
    const locks = `SELECT pid, relation::regclass::text, granted FROM pg_locks WHERE relation = 'locked'::regclass AND
      database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY granted DESC`;
    const find = async () => (await client.query(locks)).rows;
    const [holds, waits] = await until(async () => ((await find()).length === 2 ? await find() : undefined), 'a wait');
    assert.equal([holds.pid, holds.granted, waits.granted], [own, true, false]);
    const blocking = await client.query('SELECT pg_blocking_pids($1) AS pids', [waits.pid]);
    assert.equal(blocking.rows, [{ pids: [own] }]);
    const count = 'SELECT numbackends AS n FROM pg_stat_database WHERE datname = current_database()';
    assert.ok((await client.query(count)).rows[0].n >= 2);
    assert.is((await client.query('SELECT pg_cancel_backend($1) AS done', [waits.pid])).rows[0].done, true);
    assert.is(await waiting, '57014');
    assert.ok((await client.query('SELECT relname FROM pg_stat_user_tables')).rows.length > 0);
    await client.query('ROLLBACK; DROP TABLE locked');
  } finally {
    await Promise.all([client.end(), other.end()]);
  }
});

for (const [what, sql, code] of refused) {
  test(`the owner cannot ${what}`, async ({ projects }) => {
    const client = await projects.login('mallory', 'owner');
    try {
      assert.is(await refusal(client, sql), code);
      const { rows } = await client.query('SELECT current_user::text AS name');
      assert.is(rows[0].name, 'postgres.mallory');
    } finally {
      await client.end();
    }
  });
}

/**
 * SQL that reads as MCP's run_sql does: logged in as the authenticator, with the role service_role, in one statement.
 */
const AUTH_SECRETS = `
  SELECT quote_ident(nspname) || '.' || quote_ident(relname) AS name FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'auth' AND relkind IN ('r', 'p', 'v', 'm')`;

test('a session of the authenticator can’t read schema auth in any role', async ({ projects }) => {
  const owner = await projects.login('mallory', 'owner');
  const { rows } = await owner.query(AUTH_SECRETS);
  await owner.end();
  assert.ok(rows.length > 15);
  const client = await projects.login('mallory', 'authenticator');
  try {
    for (const { name } of rows) {
      for (const role of ['service_role', 'authenticated', 'anon', 'none']) {
        assert.is(await refusal(client, `SET ROLE ${role}; SELECT * FROM ${name}`), DENIED, `${role} ${name}`);
      }
      const inside = `SET ROLE service_role; DO $$ BEGIN RESET ROLE; PERFORM * FROM ${name}; END $$`;
      assert.is(await refusal(client, inside), DENIED, name);
    }
    for (const role of ['"postgres.mallory"', '"auth_admin.mallory"', 'supabase_auth_admin', 'postgres', 'slipway']) {
      assert.is(await refusal(client, `SET ROLE ${role}`), DENIED, role);
      assert.is(await refusal(client, `SET ROLE service_role; SET SESSION AUTHORIZATION ${role}`), DENIED, role);
    }
  } finally {
    await client.end();
  }
});

const OUTSIDE = ['p-victim', 'postgres', 'template1', 'template0'];
for (const part of ['owner', 'authenticator', 'authAdmin'] as const) {
  for (const database of OUTSIDE) {
    test(`the ${part} cannot connect to ${database}`, async ({ projects }) => {
      const attempt = await projects.login('mallory', part, database).catch((error) => error);
      assert.ok(attempt instanceof Error);
      assert.ok(['42501', '55000'].includes((attempt as unknown as { code: string }).code));
    });
  }
}

test('a shared role can’t log in even after a tenant sets its password', async ({ projects }) => {
  const mallory = await projects.login('mallory', 'owner');
  await mallory.query(`SET ROLE anon; ALTER ROLE anon PASSWORD 'mine'; RESET ROLE`);
  await mallory.end();
  const { default: postgres } = await import('pg');
  for (const database of ['p-mallory', 'p-victim']) {
    const client = new postgres.Client({ ...projects.postgres.admin(database), user: 'anon', password: 'mine' });
    const outcome = await client.connect().catch((error) => error.code);
    assert.ok(outcome === '28000' || outcome === '28P01', `refused, not ${outcome}`);
  }
});

test('the authenticator can become only the three API roles, and has no rights after RESET ROLE', async ({
  projects,
}) => {
  const client = await projects.login('mallory', 'authenticator');
  for (const role of ['anon', 'authenticated', 'service_role']) await client.query(`SET ROLE ${role}`);
  await client.query('RESET ROLE');
  for (const role of ['postgres', '"postgres.mallory"', '"auth_admin.mallory"', 'supabase_auth_admin']) {
    assert.is(await refusal(client, `SET ROLE ${role}`), DENIED, role);
  }
  assert.is(await refusal(client, 'SELECT * FROM auth.users'), DENIED);
  assert.is(await refusal(client, 'CREATE TABLE public.evil (id int)'), DENIED);
  assert.is(await refusal(client, 'CREATE TEMP TABLE evil (id int)'), DENIED);
  await client.end();
});

for (const role of ['anon', 'authenticated', 'service_role', 'postgres']) {
  test(`no neighbour is affected when a tenant drops or reassigns all objects of ${role}`, async ({ projects }) => {
    const mallory = await projects.login('mallory', 'owner');
    await mallory.query(`BEGIN; DROP OWNED BY ${role}; ROLLBACK`);
    await mallory.query(`DROP OWNED BY ${role}`).catch(() => {});
    await mallory.query(`REASSIGN OWNED BY ${role} TO "postgres.mallory"`).catch(() => {});
    await mallory.end();
    const victim = await projects.login('victim', 'owner');
    assert.equal(
      ((await victim.query(`SET ROLE ${role}; SELECT * FROM public.secrets`)) as unknown as pg.QueryResult[])[1]?.rows,
      [{ id: 1, body: 'of the victim' }],
    );
    await victim.end();
    const authenticator = await projects.login('victim', 'authenticator');
    await authenticator.query('SET ROLE anon');
    await authenticator.end();
  });
}

test('settings that a tenant makes on a shared role do not apply to other tenants', async ({ projects }) => {
  const mallory = await projects.login('mallory', 'owner');
  await mallory.query(
    "SET ROLE anon; ALTER ROLE anon SET statement_timeout = '1ms'; " +
      'ALTER ROLE anon IN DATABASE "p-victim" SET search_path = evil',
  );
  await mallory.end();
  const authenticator = await projects.login('victim', 'authenticator');
  await authenticator.query('SET ROLE anon');
  assert.is((await authenticator.query('SHOW statement_timeout')).rows[0].statement_timeout, '8s');
  assert.not.match((await authenticator.query('SHOW search_path')).rows[0].search_path, /evil/);
  await authenticator.end();
});

test('a removed project’s role is renamed, and deleted once no other project grants it rights', async ({
  projects,
}) => {
  await projects.create('leaves');
  await projects.create('keeps');
  const keeps = await projects.login('keeps', 'owner');
  await keeps.query(`
    CREATE TABLE bait (id int);
    GRANT SELECT ON bait TO "postgres.leaves";
    CREATE POLICY lure ON bait TO "authenticator.leaves" USING (true)`);
  const { admin } = projects;
  await dropDatabase(admin, 'p-leaves', 'leaves');
  const roles = async (pattern: string) =>
    (await admin.query(`SELECT rolcanlogin, rolpassword FROM pg_authid WHERE rolname LIKE '${pattern}'`)).rows;
  assert.equal(await roles('%.leaves'), []);
  const shut = { rolcanlogin: false, rolpassword: null };
  assert.equal(await roles('slipway-gone-%'), [shut, shut]);
  await dropGoneRoles(admin);
  assert.equal((await roles('slipway-gone-%')).length, 2);
  await keeps.query('DROP TABLE bait');
  await dropGoneRoles(admin);
  assert.equal(await roles('slipway-gone-%'), []);
  await keeps.end();
});

test('a tenant cannot end a neighbour’s connections', async ({ projects }) => {
  const victim = await projects.login('victim', 'authenticator');
  const { rows } = await victim.query('SELECT pg_backend_pid() AS pid');
  const mallory = await projects.login('mallory', 'owner');
  for (const end of ['pg_terminate_backend', 'pg_cancel_backend']) {
    assert.is(await refusal(mallory, `SELECT ${end}(${rows[0].pid})`), DENIED);
  }
  await victim.query('SELECT 1');
  await mallory.end();
  await victim.end();
});

test('connections beyond the limit of a role are rejected', async ({ projects }) => {
  const sessions: pg.Client[] = [];
  let code = '';
  while (code === '' && sessions.length < 100) {
    const session = await projects.login('mallory', 'authAdmin').catch((error) => error.code as string);
    if (typeof session === 'string') code = session;
    else sessions.push(session);
  }
  assert.is(code, '53300');
  for (const session of sessions) await session.end();
});

test.run();
