import { databaseOf, ownerRole } from '@slipway/crds';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog, until } from '../../testing.js';
import { DATABASE_BYTES, DatabaseSizes } from './database-sizes.js';

interface ReconcilerDeps {
  postgres: TestPostgres;
  superuser: pg.Client;
  sizes: DatabaseSizes;
  full: string[];
}

const test = suite<ReconcilerDeps>('sizes of databases');
const SERVICE = 'service';
const QUOTA = 40e6;
const READ_ONLY = '25006';
const ENDED = '57P01';

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.superuser = new pg.Client(context.postgres.admin());
  await context.superuser.connect();
  await context.superuser.query(`CREATE ROLE ${SERVICE} LOGIN PASSWORD 'o'`);
  for (const id of ['large', 'neighbour']) {
    await context.superuser.query(`CREATE ROLE "${ownerRole(id)}" LOGIN PASSWORD 'o'`);
    await context.superuser.query(`CREATE DATABASE "${databaseOf(id)}" OWNER "${ownerRole(id)}"`);
  }
  context.full = [];
  const project = { owner: 'ann@example.com', plan: 'free' as const };
  const projects = new Map(['large', 'neighbour'].map((ref) => [databaseOf(ref), { ...project, ref }]));
  const session = {
    query: (sql: string) => context.superuser.query(sql).then((result) => [result].flat().at(-1) as never),
  };
  const quotas = { ...DATABASE_BYTES, free: QUOTA };
  context.sizes = new DatabaseSizes(session, projects, (database) => context.full.push(database), silentLog, quotas);
});

test.after(async ({ superuser, postgres }) => {
  await superuser.end();
  await postgres.close();
});

async function login({ postgres }: ReconcilerDeps, id: string, user = ownerRole(id)): Promise<pg.Client> {
  const client = new pg.Client({ ...postgres.admin(databaseOf(id)), user, password: 'o' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

const codeOf = (query: Promise<unknown>) =>
  query.then(
    () => 'done',
    ({ code }: { code: string }) => code,
  );

const fill = (megabytes: number) =>
  `insert into rows select repeat(md5(n::text), 32) from generate_series(1, ${megabytes * 1000}) n`;

test('a database beyond its quota is read-only for all who log in, and a neighbour is not', async (deps) => {
  const owner = await login(deps, 'large');
  const service = await login(deps, 'large', SERVICE);
  const neighbour = await login(deps, 'neighbour');
  await owner.query(`create table rows (t text); grant all on rows to ${SERVICE}; ${fill(10)}`);
  await deps.sizes.look();
  assert.equal(deps.full, []);
  await owner.query(fill(60));
  for (let n = 0; n < 30; n++) await deps.sizes.look();
  assert.equal(deps.full, [databaseOf('large')], 'it is told once');
  for (const open of [owner, service]) assert.is.not(await codeOf(open.query('select 1')), 'done');
  for (const role of [ownerRole('large'), SERVICE]) {
    const client = await login(deps, 'large', role);
    assert.is(await codeOf(client.query(fill(1))), READ_ONLY);
    assert.is((await client.query('select count(*)::int as n from rows')).rows[0].n, 70_000);
    await client.end();
  }
  assert.is(await codeOf(neighbour.query('create table rows (t text)')), 'done');
  await neighbour.end();
});

test('an owner who writes on is ended, and one who makes room can write again', async (deps) => {
  const owner = await login(deps, 'large');
  await owner.query('set default_transaction_read_only = off');
  const growing = codeOf(owner.query(`begin; ${fill(200)}; select pg_sleep(60)`));
  await until(async () => {
    await deps.sizes.look();
    return Promise.race([growing, deps.sizes.look()]);
  }, 'the end of the session that writes on');
  assert.is(await growing, ENDED);

  const tidy = await login(deps, 'large');
  await tidy.query('set default_transaction_read_only = off');
  await tidy.query('delete from rows where ctid < $1', ['(1000,0)']);
  await deps.sizes.look();
  await tidy.query('truncate rows');
  await tidy.query('vacuum full rows');
  await until(async () => {
    await deps.sizes.look();
    const service = await login(deps, 'large', SERVICE);
    const outcome = await codeOf(service.query(fill(1)));
    await service.end();
    return outcome === 'done';
  }, 'the database to be writable');
  assert.equal(deps.full, [databaseOf('large')]);
  await tidy.end();
});

test.run();
