/** Tests databases beyond their quota, on a real server with small quotas. */
import { databaseOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import type pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  closeFullDatabases,
  type FullDatabases,
  fill,
  newServer,
  QUOTA,
  type SmallProject,
  smallProject,
  startFullDatabases,
  writeOn,
} from './full-database.testing.js';

interface Context extends FullDatabases {
  large: SmallProject;
  neighbour: SmallProject;
}

const test = suite<Context>('sizes of databases');
const READ_ONLY = '25006';

test.before(async (context) => {
  Object.assign(context, await startFullDatabases());
  context.large = await smallProject(context, 'large');
  context.neighbour = await smallProject(context, 'neighbour');
});
test.after(closeFullDatabases);

const codeOf = (query: Promise<unknown>) =>
  query.then(
    () => 'done',
    ({ code }: { code: string }) => code,
  );

async function codeAs(project: SmallProject, role: 'owner' | 'authenticator' | 'query', sql: string): Promise<string> {
  const client = await project.login(role).catch((error: { code: string }) => error.code);
  if (typeof client === 'string') return client;
  const code = await codeOf(client.query(sql));
  await client.end().catch(() => {});
  return code;
}

const isFull = async ({ superuser }: Context, { id }: SmallProject) =>
  (await superuser.query('select from slipway.full_databases where database = $1', [databaseOf(id)])).rowCount === 1;

test('a database beyond its quota is read-only for each login, and another database is writable', async (context) => {
  const { large, neighbour, full } = context;
  const owner = await large.login('owner');
  await owner.query(`create table rows (t text); grant all on rows to anon; ${fill(10)}`);
  const growing = codeOf(owner.query(`${fill(60)}; select pg_sleep(60)`));
  await until(() => isFull(context, large), 'the database to be full');
  assert.is(await growing, '57P01');
  await until(() => full.length > 0, 'the message to the owner');
  assert.is(full.length, 1);
  assert.match(full[0] as string, /^large: The database is larger than the 40 MB of its plan, and is read-only/);
  assert.is(await codeAs(large, 'owner', fill(1)), READ_ONLY);
  assert.is(await codeAs(large, 'authenticator', `set role anon; ${fill(1)}`), READ_ONLY);
  assert.is(await codeAs(large, 'authenticator', 'set role anon; select * from rows'), 'done');
  assert.is(await codeAs(neighbour, 'owner', 'create table rows (t text)'), 'done');
});

test('the owner of a full database can neither make roles writable nor open a closed login', async ({ large }) => {
  const owner = await large.login('owner');
  const authenticator = `"authenticator.${large.id}"`;
  const database = `"${databaseOf(large.id)}"`;
  await owner.query('set default_transaction_read_only = off');
  for (const sql of [
    `alter role ${authenticator} in database ${database} reset default_transaction_read_only`,
    `alter role ${authenticator} in database ${database} reset all`,
    `alter role ${authenticator} login`,
    `alter role current_user login`,
  ]) {
    assert.is(await codeOf(owner.query(sql)), '42501', sql);
  }
  assert.is(await codeOf(owner.query(`alter database ${database} reset all`)), 'done');
  assert.is(await codeAs(large, 'authenticator', `set role anon; ${fill(1)}`), READ_ONLY);
  await owner.end();
});

test('/query makes room in a database whose login at db_url was shut a moment ago', async (context) => {
  const loaded = await smallProject(context, 'loaded');
  const owner = await loaded.login('owner');
  await owner.query('create table rows (t text)');
  assert.is(await codeOf(owner.query(`${fill(60)}; select pg_sleep(60)`)), '57P01');
  await until(() => isFull(context, loaded), 'the database to be full');
  const before = await loaded.size();
  await writeOn(loaded, (refusals) => refusals > 20, ['owner']);
  assert.is(await codeAs(loaded, 'owner', 'select 1'), '28000');
  assert.match(context.server.usage('loaded')?.shut ?? '', /db_url is shut until 20.*Z\. Make room by POST/);
  for (const sql of ["delete from rows where ctid < '(100,0)'", 'truncate rows', 'drop table rows']) {
    assert.is(await codeAs(loaded, 'query', `set default_transaction_read_only = off; ${sql}`), 'done', sql);
  }
  assert.ok((await loaded.size()) < QUOTA && before > QUOTA);
  await until(async () => (await codeAs(loaded, 'owner', fill(1))) !== '28000', 'the owner to log in');
  assert.is(context.server.usage('loaded')?.shut, undefined);
});

test('an owner who reconnects and writes loses the login, even after a repair of the roles', async (context) => {
  const { large, full, neighbour } = context;
  await writeOn(large, (refusals) => refusals > 50);
  const size = await large.size();
  await writeOn(large, (refusals) => refusals > 50);
  const grown = (await large.size()) - size;
  assert.ok(grown < 1e6, `it grew by ${grown} after both logins were shut`);
  // The owner's login is closed first, and the message appears afterwards.
  const shut = /kept growing: db_url and \/query are shut until 20\d\d-.*Z/;
  await until(
    () => full.at(-1),
    (last) => shut.test(last ?? ''),
  );
  await large.ensure();
  for (const role of ['owner', 'query'] as const) assert.is(await codeAs(large, role, 'select 1'), '28000', role);
  assert.is(await codeAs(large, 'authenticator', 'set role anon; select count(*) from rows'), 'done');
  assert.is(await codeAs(neighbour, 'owner', 'insert into rows values (1)'), 'done');
});

test('a closed database stays closed after a restart, and opens when its time is over', async (context) => {
  const { postgres, large, superuser } = context;
  await context.server.close();
  await superuser.query('update slipway.full_databases set level = 1');
  await superuser.query(`alter role "query.${large.id}" login`);
  context.server = newServer(postgres, context.full);
  await large.ensure(context.server);
  assert.is(await codeAs(large, 'owner', 'select 1'), '28000');
  assert.is(await codeAs(large, 'query', 'select count(*) from rows'), 'done');
  await context.server.close();
  await superuser.query('update slipway.full_databases set shut_until = 0');
  context.server = newServer(postgres, context.full);
  await large.ensure(context.server);
  await until(async () => (await codeAs(large, 'owner', 'select 1')) === 'done', 'the owner to log in');
});

test('a full database is writable again after its owner has deleted rows', async (context) => {
  const { large } = context;
  const owner: pg.Client = await large.login('owner');
  await owner.query('set default_transaction_read_only = off');
  await owner.query('delete from rows where ctid < $1', ['(1000,0)']);
  await owner.query('truncate rows');
  await until(async () => (await codeAs(large, 'authenticator', `set role anon; ${fill(1)}`)) === 'done', 'writes');
  assert.ok((await large.size()) < QUOTA);
  assert.is(await codeAs(large, 'owner', fill(1)), 'done');
  await owner.end();
});

test.run();
