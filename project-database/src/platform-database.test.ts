import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PLATFORM_DATABASE, preparePlatformDatabase } from './platform-database.js';

const test = suite<{ postgres: TestPostgres }>('platform database');
test.before(async (context) => {
  context.postgres = await startTestPostgres();
});
test.after(({ postgres }) => postgres.close());

const connected = async (config: pg.ClientConfig) => {
  const client = new pg.Client(config);
  client.on('error', () => {});
  await client.connect();
  return client;
};
const rows = async (config: pg.ClientConfig, sql: string) => {
  const client = await connected(config);
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};
const asApi = (postgres: TestPostgres, password: string) => ({
  ...postgres.admin(PLATFORM_DATABASE),
  user: 'slipway_api',
  password,
});

test('the platform database can be prepared without a superuser, and the API owns only its schema', async ({
  postgres,
}) => {
  await rows(postgres.admin(), "CREATE ROLE administrator LOGIN CREATEROLE CREATEDB PASSWORD 'of-the-site'");
  const administrator = { user: 'administrator', password: 'of-the-site' };
  const connect = (database: string) => connected({ ...postgres.admin(database), ...administrator });
  for (const _run of [1, 2]) await preparePlatformDatabase(connect, { api: 'first' });
  await rows(asApi(postgres, 'first'), 'CREATE TABLE kept AS SELECT 1 AS one');
  const [found] = await rows(
    asApi(postgres, 'first'),
    `SELECT tableowner, schemaname, (SELECT count(*)::int FROM pg_roles WHERE rolname = 'slipway_apiserver') AS others
     FROM pg_tables WHERE tablename = 'kept'`,
  );
  assert.equal(found, { tableowner: 'slipway_api', schemaname: 'platform', others: 0 });
  const refusal = await rows(asApi(postgres, 'first'), 'CREATE TABLE public.other (id int)').catch(({ code }) => code);
  assert.is(refusal, '42501');
});

test('a changed role is repaired and keeps its data', async ({ postgres }) => {
  const connect = (database: string) => connected(postgres.admin(database));
  await preparePlatformDatabase(connect, { api: 'second', apiserver: 'another' });
  await rows(postgres.admin(), "ALTER ROLE slipway_api NOLOGIN SUPERUSER PASSWORD 'stolen'");
  await preparePlatformDatabase(connect, { api: 'second', apiserver: 'another' });
  assert.equal(await rows(asApi(postgres, 'second'), 'SELECT one FROM kept'), [{ one: 1 }]);
  const [role] = await rows(postgres.admin(), "SELECT rolsuper FROM pg_roles WHERE rolname = 'slipway_api'");
  assert.is(role.rolsuper, false);
  const refusal = await rows({ ...asApi(postgres, 'second'), database: 'postgres' }, 'SELECT 1').catch(
    ({ code }) => code,
  );
  assert.is(refusal, '42501');
});

test.run();
