/** The reader of changes: who it is, what it may, and that no reading of its stands in the way of a removal. */
import { databaseOf, REPLICATION_ROLE, replicationSlotOf } from '@slipway/crds';
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

test('it may replicate, and is neither superuser nor free of row-level security nor a member of anything', async ({
  admin,
}) => {
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

test('it reads no table, and enters no database but the tenants’', async ({ projects }) => {
  const client = await login(projects, databaseOf('read-by-us'));
  const refused = await client.query('select * from auth.users').catch((error) => error.code);
  assert.is(refused, '42501');
  await client.end();
  assert.is(await login(projects, 'postgres').catch((error) => error.code), '42501');
});

test('slots that nobody reads are dropped once they are idle for so long, those of others never', async ({
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

test('a database whose changes are being read is dropped all the same, and its slot with it', async ({
  projects,
  admin,
}) => {
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

test('a removal goes on where a kill cut the dropping of the database short', async ({ projects, admin }) => {
  const database = databaseOf('half-dropped');
  await projects.create('half-dropped');
  // What DROP DATABASE leaves behind when it ends between its two transactions.
  await admin.query('update pg_database set datconnlimit = -2 where datname = $1', [database]);
  await dropDatabase(admin, database, 'half-dropped');
  assert.is((await admin.query('select from pg_database where datname = $1', [database])).rowCount, 0);
});

test.run();
