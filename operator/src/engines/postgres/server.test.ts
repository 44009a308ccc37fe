/**
 * Tests opaque names on a real Postgres server: the owner of each database, and which of its data the catalogs show.
 */
import { databaseOf, ownerRole } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { newDatabaseId } from '@slipway/project-database';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { DatabaseRequest } from '../../capabilities/index.js';
import { TransientError } from '../../runtime/transient-error.js';
import { adminUrl, silentLog } from '../../testing.js';
import { projectNamed } from '../engine.suite.js';
import { DatabaseServer } from './server.js';

interface Context {
  postgres: TestPostgres;
  server: DatabaseServer;
}

const OWNER = 'owner@hidden.example';
const test = suite<Context>('database server');

const serverOn = (postgres: TestPostgres) =>
  new DatabaseServer({ adminUrl: adminUrl(postgres), spares: 1, ofOne: false, log: silentLog });

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.server = serverOn(context.postgres);
});
test.after(async ({ postgres, server }) => {
  await server.close();
  await postgres.close();
});

const request = (ref: string, databaseId: string, password = 'first'): DatabaseRequest => ({
  project: { ...projectNamed(ref), owner: OWNER },
  databaseId,
  passwords: { owner: password, authenticator: `${password}-2`, authAdmin: `${password}-3` },
  existed: false,
});

async function query(login: pg.ClientConfig, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(login);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const asOwner = ({ postgres }: Context, databaseId: string, sql: string, password = 'first') =>
  query({ ...postgres.admin(databaseOf(databaseId)), user: ownerRole(databaseId), password }, sql);

const asSuperuser = ({ postgres }: Context, sql: string) => query(postgres.admin(), sql);

/** Every relation that all databases of a server share. Each login may read most of them. */
async function sharedCatalogs(context: Context): Promise<string> {
  const names = await asSuperuser(context, `SELECT relname FROM pg_class WHERE relisshared AND relkind = 'r'`);
  const texts = names.map(({ relname }) => asSuperuser(context, `SELECT t::text FROM ${relname} t`));
  return JSON.stringify(await Promise.all(texts));
}

test('a retained database shows neither project nor owner, and the project finds it again', async (context) => {
  const { server } = context;
  const id = newDatabaseId();
  const asked = request('hidden-shop', id);
  assert.equal(await server.ensure(asked), { state: 'ready', value: undefined });
  await asOwner(context, id, 'CREATE TABLE kept AS SELECT 7 AS id');
  const { project } = asked;
  assert.is((await server.remove({ ...asked, ...project, retain: true })).state, 'ready');
  assert.not.match(await sharedCatalogs(context), /hidden/);

  const stranger = { ...request('hidden-shop', newDatabaseId(), 'other') };
  stranger.project = { ...stranger.project, owner: 'another@hidden.example' };
  const refused = await server.ensure(stranger);
  assert.is(refused.state === 'failed' && refused.reason, 'DatabaseRetained');
  assert.not.match(JSON.stringify(refused), new RegExp(`${id}|${OWNER}`));

  const again = await server.ensure(request('hidden-shop', newDatabaseId(), 'second'));
  assert.equal(again.state === 'ready' && again.databaseId, id);
  assert.equal(await asOwner(context, id, 'SELECT id FROM kept', 'second'), [{ id: 7 }]);
  const record = await asSuperuser(context, `SELECT retained_for FROM slipway.databases WHERE ref = 'hidden-shop'`);
  assert.equal(record, [{ retained_for: null }]);
  await server.remove({ ...request('hidden-shop', id, 'second'), ...project, retain: false });
  assert.equal(await asSuperuser(context, `SELECT FROM slipway.databases WHERE ref = 'hidden-shop'`), []);
  assert.equal(await asSuperuser(context, `SELECT datname FROM pg_database WHERE datname = '${databaseOf(id)}'`), []);
});

test('a project keeps its database, under the recorded id, when its Secret was lost', async (context) => {
  const { server } = context;
  const id = newDatabaseId();
  await server.ensure(request('lost-secret', id));
  assert.is(await server.recordedId('lost-secret'), id);
  const outcome = await server.ensure({ ...request('lost-secret', newDatabaseId(), 'second'), existed: true });
  assert.is(outcome.state === 'ready' && outcome.databaseId, id);
  assert.equal(await asOwner(context, id, 'SELECT 1 AS one', 'second'), [{ one: 1 }]);
});

test('a full lock table causes a retry of the reconcile, and no failed project', async (context) => {
  const { server, postgres } = context;
  const asked = request('unlucky', newDatabaseId());
  await server.ensure(asked);
  const filling = new pg.Client(postgres.admin());
  const changed = { ...request('unlucky', asked.databaseId, 'next'), former: asked.passwords };
  await filling.connect();
  try {
    const code = await filling
      .query('SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 10000000) n')
      .catch((error) => error.code);
    assert.is(code, '53200');
    const failure = await server.ensure(changed).catch((error) => error);
    assert.instance(failure, TransientError);
    assert.match(failure.message, /53200/);
  } finally {
    await filling.end();
  }
  assert.is((await server.ensure(changed)).state, 'ready');
});

test('a new password ends the former owner’s sessions when they use all slots of the role', async (context) => {
  const { server, postgres } = context;
  const id = newDatabaseId();
  await server.ensure(request('changes-hands', id));
  const login = { ...postgres.admin(databaseOf(id)), user: ownerRole(id), password: 'first' };
  const ended = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const client = new pg.Client(login);
      const end = new Promise<void>((resolve) => client.on('end', resolve));
      client.on('error', () => {});
      await client.connect();
      return { end, client };
    }),
  );
  try {
    assert.is((await server.ensure(request('changes-hands', id))).state, 'ready');
    for (const { client } of ended) await client.query('SELECT 1');
    const changed = { ...request('changes-hands', id, 'second'), former: request('changes-hands', id).passwords };
    assert.is((await server.ensure(changed)).state, 'ready');
    assert.equal(await asOwner(context, id, 'SELECT 1 AS one', 'second'), [{ one: 1 }]);
    await Promise.all(ended.map(({ end }) => end));
  } finally {
    await Promise.all(ended.map(({ client }) => client.end().catch(() => {})));
  }
});

test('a Secret with a neighbour’s database id and passwords gives no access to its database', async (context) => {
  const { server } = context;
  const id = newDatabaseId();
  await server.ensure(request('neighbour', id));
  for (const [ref, password] of [
    ['grabs', 'other'],
    ['copies', 'first'],
  ] as const) {
    const grabbed = await server.ensure({ ...request(ref, id, password) });
    const got = grabbed.state === 'ready' ? grabbed.databaseId : undefined;
    assert.ok(got && got !== id, ref);
    const removed = { ...request(ref, id, password), ...projectNamed(ref), owner: OWNER, retain: false };
    assert.is((await server.remove(removed)).state, 'ready');
  }
  assert.equal(await asOwner(context, id, 'SELECT 1 AS one'), [{ one: 1 }]);
});

test('a project is recognized by its passwords when its restored database has no record', async (context) => {
  const { server } = context;
  const id = newDatabaseId();
  await server.ensure(request('restored', id));
  await asSuperuser(context, `DELETE FROM slipway.databases WHERE ref = 'restored'`);
  assert.equal(await server.ensure({ ...request('restored', id), existed: true }), {
    state: 'ready',
    value: undefined,
  });
  assert.is(await server.recordedId('restored'), id);
});

/**
 * Makes a retained database in the form of earlier releases: the names contain the ref, and the comment names the
 * owner.
 */
async function retainedByAnEarlierRelease(context: Context, ref: string): Promise<void> {
  const { server } = context;
  const asked = request(ref, ref);
  await server.ensure(asked);
  await asOwner(context, ref, 'CREATE TABLE kept AS SELECT 8 AS id');
  await server.remove({ ...asked, ...asked.project, retain: true });
  await asSuperuser(
    context,
    `DELETE FROM slipway.databases WHERE ref = '${ref}';
     COMMENT ON DATABASE "${databaseOf(ref)}" IS 'slipway: retained for ${OWNER}'`,
  );
}

test('an earlier release’s mark of retained data moves to the record, and its owner gets the data', async (context) => {
  await retainedByAnEarlierRelease(context, 'legacy');
  await context.server.close();
  context.server = serverOn(context.postgres);
  const stranger = request('legacy', newDatabaseId(), 'other');
  stranger.project = { ...stranger.project, owner: 'another@hidden.example' };
  const refused = await context.server.ensure(stranger);
  assert.is(refused.state === 'failed' && refused.reason, 'DatabaseRetained');
  assert.not.match(await sharedCatalogs(context), new RegExp(OWNER));
  const again = await context.server.ensure(request('legacy', newDatabaseId(), 'second'));
  assert.is(again.state === 'ready' && again.databaseId, 'legacy');
  assert.equal(await asOwner(context, 'legacy', 'SELECT id FROM kept', 'second'), [{ id: 8 }]);
});

test('a mark of retained data is ignored if a tenant wrote it on its own open database', async (context) => {
  await context.server.ensure(request('marks-itself', 'marks-itself'));
  await asSuperuser(context, `DELETE FROM slipway.databases WHERE ref = 'marks-itself'`);
  const comment = `COMMENT ON DATABASE "${databaseOf('marks-itself')}" IS 'slipway: retained for else@hidden.example'`;
  await asOwner(context, 'marks-itself', comment);
  await context.server.close();
  context.server = serverOn(context.postgres);
  assert.equal(await context.server.ensure({ ...request('marks-itself', 'marks-itself'), existed: true }), {
    state: 'ready',
    value: undefined,
  });
});

for (const [what, id] of [
  ['random names', newDatabaseId()],
  ['the names of an earlier release', 'forges'],
] as const) {
  test(`a mark of retained data by a tenant with ${what} changes no record, and stops no start`, async (context) => {
    const asked = request('forges', id);
    await context.server.ensure(asked);
    await asOwner(
      context,
      id,
      `COMMENT ON DATABASE "${databaseOf(id)}" IS 'slipway: retained for else@hidden.example'`,
    );
    await context.server.remove({ ...asked, ...asked.project, retain: true });
    await context.server.close();
    context.server = serverOn(context.postgres);
    await context.server.start();
    const record = await asSuperuser(context, `SELECT retained_for FROM slipway.databases WHERE database_id = '${id}'`);
    assert.equal(record, [{ retained_for: OWNER }]);
    assert.is((await context.server.remove({ ...asked, ...asked.project, retain: false })).state, 'ready');
  });
}

test('no tenant can read the record of projects’ databases', async (context) => {
  const id = newDatabaseId();
  await context.server.ensure(request('reads', id));
  const login = { ...context.postgres.admin('postgres'), user: ownerRole(id), password: 'first' };
  const code = await query(login, 'SELECT * FROM slipway.databases').then(
    () => 'read',
    (error) => error.code,
  );
  assert.ok(['42501', '28000'].includes(code), code);
});

test.run();
