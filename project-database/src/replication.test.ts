/** Tests the replication role: its attributes, its rights, and that an active slot never delays a removal. */
import { databaseOf, REPLICATION_ROLE, replicationSlotOf } from '@slipway/installation';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { openReplication } from './cluster.js';
import { dropIdleReplicationSlots } from './replication-slots.js';
import { dropDatabase } from './spare.js';
import { startTestProjects, type TestProjects } from './testing.js';

const test = suite<{ projects: TestProjects; admin: pg.Client }>('the reader of changes');
const PASSWORD = 'of-the-reader';

test.before(async (context) => {
  context.projects = await startTestProjects();
  context.admin = new pg.Client(context.projects.postgres.admin());
  await context.admin.connect();
  await context.projects.create('read-by-us');
  await openReplication(context.admin, PASSWORD);
});
test.after(async ({ projects, admin }) => {
  await admin.end();
  await projects.close();
});

const login = async (projects: TestProjects, database: string, more: object = {}) => {
  const client = new pg.Client({
    ...projects.postgres.admin(database),
    user: REPLICATION_ROLE,
    password: PASSWORD,
    ...more,
  });
  client.on('error', () => undefined);
  await client.connect();
  return client;
};

test('the replication role has REPLICATION and no other attribute, and is in no group', async ({ admin }) => {
  const { rows } = await admin.query(
    `select rolreplication, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,
       exists (select from pg_auth_members where member = r.oid or roleid = r.oid) as related
     from pg_roles r where rolname = $1`,
    [REPLICATION_ROLE],
  );
  assert.equal(rows, [
    {
      rolreplication: true,
      rolsuper: false,
      rolbypassrls: false,
      rolcreaterole: false,
      rolcreatedb: false,
      related: false,
    },
  ]);
});

test('the replication role reads no table, and can connect only to the tenants’ databases', async ({ projects }) => {
  const client = await login(projects, databaseOf('read-by-us'));
  const refused = await client.query('select * from auth.users').catch((error) => error.code);
  assert.is(refused, '42501');
  await client.end();
  assert.is(await login(projects, 'postgres').catch((error) => error.code), '42501');
});

test('a slot of Slipway is dropped once it is idle for the given time, and any other slot never', async ({
  projects,
  admin,
}) => {
  await admin.query(`select pg_create_physical_replication_slot('of_another')`);
  const reader = await login(projects, databaseOf('read-by-us'), { replication: 'database' });
  await reader.query(`CREATE_REPLICATION_SLOT realtime_left_behind LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  await reader.end();
  assert.equal(await dropIdleReplicationSlots(admin, 600), []);
  assert.equal(await dropIdleReplicationSlots(admin, 0), ['realtime_left_behind']);
  assert.equal((await admin.query('select slot_name from pg_replication_slots')).rows, [{ slot_name: 'of_another' }]);
  await admin.query(`select pg_drop_replication_slot('of_another')`);
});

test('a database is dropped with its slot even while a reader uses the slot', async ({ projects, admin }) => {
  const slot = replicationSlotOf('read-by-us');
  const reader = await login(projects, databaseOf('read-by-us'), { replication: 'database' });
  await reader.query(`CREATE_REPLICATION_SLOT ${slot} LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  const ended = reader
    .query(`START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names '"supabase_realtime"')`)
    .catch((error) => error);
  const isActive = async () =>
    (await admin.query('select from pg_replication_slots where slot_name = $1 and active', [slot])).rowCount === 1;
  while (!(await isActive()));
  await dropDatabase(admin, databaseOf('read-by-us'), 'read-by-us');
  assert.ok((await ended) instanceof Error);
  const left =
    'select datname from pg_database where datname = $1 union all select slot_name from pg_replication_slots';
  assert.equal((await admin.query(left, [databaseOf('read-by-us')])).rows, []);
});

test('a removal continues when a kill interrupted the drop of the database', async ({ projects, admin }) => {
  const database = databaseOf('half-dropped');
  await projects.create('half-dropped');
  // DROP DATABASE leaves this state when it is killed between its two transactions.
  await admin.query('update pg_database set datconnlimit = -2 where datname = $1', [database]);
  await dropDatabase(admin, database, 'half-dropped');
  assert.is((await admin.query('select from pg_database where datname = $1', [database])).rowCount, 0);
});

test.run();
