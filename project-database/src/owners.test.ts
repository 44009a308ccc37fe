/** Tests the group of owners on a server like CloudNativePG's, whose superuser is `postgres`. */
import { databaseOf, ownerRole } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { prepareCluster } from './cluster.js';
import { LOGIN_ROLES, type ProjectPasswords } from './roles.js';
import { buildSpare, ensureTemplate, newSpareId, takeSpare } from './spare.js';

const test = suite<{ postgres: TestPostgres; admin: pg.Client }>('a server whose superuser is postgres');
const REF = 'moved';
const PASSWORD = 'of-a-role';

const connected = async (config: pg.ClientConfig) => {
  const client = new pg.Client(config);
  client.on('error', () => {});
  await client.connect();
  return client;
};

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  const { postgres } = context;
  const first = await connected(postgres.admin());
  await first.query(`CREATE ROLE renamer SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
  await first.end();
  const renamer = await connected({ ...postgres.admin(), user: 'renamer', password: PASSWORD });
  await renamer.query('ALTER ROLE slipway RENAME TO postgres');
  await renamer.query(`ALTER ROLE postgres PASSWORD '${PASSWORD}'`);
  await renamer.end();
  const asPostgres = (database: string) =>
    connected({ ...postgres.admin(database), user: 'postgres', password: PASSWORD });
  context.admin = await asPostgres('postgres');
  for (const _run of [1, 2]) await prepareCluster(context.admin);
  await ensureTemplate(context.admin, asPostgres);
  const id = newSpareId();
  await buildSpare(context.admin, asPostgres, id);
  const passwords = Object.fromEntries(LOGIN_ROLES.map(({ part }) => [part, PASSWORD])) as unknown as ProjectPasswords;
  await takeSpare(context.admin, id, REF, passwords);
});
test.after(async ({ admin, postgres }) => {
  await admin.end();
  await postgres.close();
});

const asOwner = async (postgres: TestPostgres, sql: string): Promise<string> => {
  const client = await connected({ ...postgres.admin(databaseOf(REF)), user: ownerRole(REF), password: PASSWORD });
  try {
    await client.query(sql);
    return 'done';
  } catch (error) {
    return String((error as { code?: string }).code);
  } finally {
    await client.end();
  }
};

test('the superuser keeps its rights, and no tenant is a member of its role', async ({ admin, postgres }) => {
  const { rows } = await admin.query(`
    SELECT rolsuper AND rolcanlogin AS whole,
      (SELECT count(*)::int FROM pg_auth_members WHERE roleid = pg_roles.oid) AS members
    FROM pg_roles WHERE rolname = 'postgres'`);
  assert.equal(rows, [{ whole: true, members: 0 }]);
  for (const sql of ['SET ROLE postgres', 'CREATE TABLE t (id int); ALTER TABLE t OWNER TO postgres']) {
    assert.is(await asOwner(postgres, sql), '42501', sql);
  }
});

test('the superuser owns no security-definer function and no schema in a project’s database', async ({ postgres }) => {
  const client = await connected({ ...postgres.admin(databaseOf(REF)), user: 'postgres', password: PASSWORD });
  const { rows } = await client.query(`
    SELECT proname FROM pg_proc WHERE prosecdef AND proowner = 'postgres'::regrole
      AND pronamespace::regnamespace::text IN ('auth', 'storage', 'realtime', 'public')
    UNION ALL
    SELECT nspname FROM pg_namespace
    WHERE nspowner = 'postgres'::regrole AND nspname IN ('auth', 'storage', 'realtime')`);
  await client.end();
  assert.equal(rows, []);
});

const DONE = [
  'CREATE TABLE public.todos (id int, owner uuid REFERENCES auth.users (id))',
  'ALTER TABLE public.todos ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON public.todos USING (owner = auth.uid())',
  "INSERT INTO auth.users (id, email) VALUES (gen_random_uuid(), 'a@example.com')",
  'CREATE POLICY read ON storage.objects FOR SELECT TO authenticated USING (true)',
  'CREATE POLICY read ON realtime.messages FOR SELECT TO authenticated USING (true)',
  'SET ROLE service_role; SELECT * FROM public.todos',
];
for (const sql of DONE) {
  test(`the owner may run ${sql}`, async ({ postgres }) => {
    assert.is(await asOwner(postgres, sql), 'done');
  });
}

test.run();
