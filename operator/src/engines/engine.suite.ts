/**
 * Tests of the contract of every engine. In: a started engine, and functions that inspect the objects that it created.
 * Each engine's own test runs this suite.
 */

import { type Region } from '@slipway/crds';
import { databaseOf, ownerRole } from '@slipway/installation';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Capabilities, DatabaseRequest, EngineOutcome, EngineProject } from '../capabilities/index.js';

export interface EngineUnderTest extends Pick<Capabilities, 'databases' | 'services'> {
  /** The database's address for this test's own clients. */
  login(ref: string, role: string, password: string): pg.ClientConfig;
  /** Lists leftovers of `ref` by name: databases, roles, objects. */
  leftovers(ref: string): Promise<string[]>;
  /** The region of new projects. Default: eu-central. */
  region?: Region;
}

/** Returns the project as the controller describes it to an engine. */
export const projectNamed = (ref: string, region: Region = 'eu-central'): EngineProject => ({
  ref,
  uid: `uid-${ref}`,
  owner: 'owner@example.com',
  type: 'shared',
  region,
  plan: 'free',
  suspended: false,
  retain: false,
  placement: undefined,
});

export function engineSuite(name: string, start: () => Promise<EngineUnderTest>, stop: () => Promise<void>): void {
  const test = suite<{ under: EngineUnderTest }>(name);
  let region: Region | undefined;
  const named = (ref: string) => projectNamed(ref, region);
  test.before(async (context) => {
    context.under = await start();
    region = context.under.region;
  });
  test.after(stop);

  const request = (ref: string, version = '1'): DatabaseRequest => ({
    project: named(ref),
    databaseId: ref,
    passwords: { owner: `owner-${version}`, authenticator: `authenticator-${version}`, authAdmin: `auth-${version}` },
    existed: false,
  });
  const removal = (ref: string, retain = false) => ({ ...named(ref), ...request(ref), retain });
  /** Returns `in`, or the error code of the login. */
  const enter = async ({ login }: EngineUnderTest, ref: string, password: string): Promise<string> => {
    const client = new pg.Client(login(ref, ownerRole(ref), password));
    const said = await client.connect().then(
      () => 'in',
      (error: { code?: string }) => error.code ?? 'no answer',
    );
    await client.end().catch(() => {});
    return said;
  };
  const idsKept = async ({ login }: EngineUnderTest, ref: string, password: string) => {
    const client = new pg.Client(login(ref, ownerRole(ref), password));
    await client.connect();
    const { rows } = await client.query('SELECT id FROM kept');
    await client.end();
    return rows;
  };
  const loginWorks = async ({ login }: EngineUnderTest, ref: string, password: string) => {
    const client = new pg.Client(login(ref, ownerRole(ref), password));
    try {
      await client.connect();
      await client.query('SELECT 1');
      return true;
    } catch (error) {
      assert.is((error as { code?: string }).code, '28P01');
      return false;
    } finally {
      await client.end().catch(() => {});
    }
  };

  test('a requested database is ready, and its owner logs in with the given password', async ({ under }) => {
    assert.equal(await under.databases.ensure(request('born')), { state: 'ready', value: undefined });
    assert.ok(await loginWorks(under, 'born', 'owner-1'));
    assert.not(await loginWorks(under, 'born', 'owner-2'));
  });

  test('a repeated request for a database changes nothing, and another password replaces the first', async ({
    under,
  }) => {
    await under.databases.ensure(request('again'));
    const client = new pg.Client(under.login('again', ownerRole('again'), 'owner-1'));
    await client.connect();
    await client.query('CREATE TABLE kept (id int)');
    await client.end();
    assert.is((await under.databases.ensure(request('again'))).state, 'ready');
    assert.is((await under.databases.ensure({ ...request('again', '2'), existed: true })).state, 'ready');
    assert.not(await loginWorks(under, 'again', 'owner-1'));
    const later = new pg.Client(under.login('again', ownerRole('again'), 'owner-2'));
    await later.connect();
    assert.equal((await later.query('SELECT * FROM kept')).rows, []);
    await later.end();
  });

  test('many databases that are requested at the same time are all made, each with roles of its own', async ({
    under,
  }) => {
    const refs = Array.from({ length: 12 }, (_, index) => `many-${index}`);
    const outcomes = await Promise.all(refs.map((ref) => under.databases.ensure(request(ref))));
    assert.ok(outcomes.every(({ state }) => state === 'ready'));
    for (const ref of refs) assert.ok(await loginWorks(under, ref, 'owner-1'), ref);
    await Promise.all(refs.map((ref) => under.databases.remove(removal(ref))));
  });

  test('a removal of a database leaves nothing, even with open connections, and a second one is no error', async ({
    under,
  }) => {
    await under.databases.ensure(request('gone'));
    const client = new pg.Client(under.login('gone', ownerRole('gone'), 'owner-1'));
    client.on('error', () => {});
    await client.connect();
    assert.equal(await under.databases.remove(removal('gone')), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await under.leftovers('gone'), []);
    assert.equal(await under.databases.remove(removal('gone')), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await under.databases.remove(removal('never-was')), {
      state: 'ready',
      value: undefined,
    });
    await client.end().catch(() => {});
  });

  test('a new project under the name of a deleted one gets an empty database', async ({ under }) => {
    await under.databases.ensure(request('anew'));
    const client = new pg.Client(under.login('anew', ownerRole('anew'), 'owner-1'));
    await client.connect();
    await client.query('CREATE TABLE old (id int)');
    await client.end();
    await under.databases.remove(removal('anew'));
    await under.databases.ensure(request('anew', '2'));
    const later = new pg.Client(under.login('anew', ownerRole('anew'), 'owner-2'));
    await later.connect();
    const refusal = await later.query('SELECT * FROM old').catch((error) => error.code);
    await later.end();
    assert.is(refusal, '42P01');
  });

  test('a database that no longer exists is reported as lost, and no empty one replaces it', async ({ under }) => {
    const outcome = await under.databases.ensure({ ...request('lost'), existed: true });
    assert.is(outcome.state, 'failed');
    assert.is(outcome.state === 'failed' && outcome.reason, 'DatabaseLost');
    assert.equal(await under.leftovers('lost'), []);
  });

  const suspended = (ref: string): DatabaseRequest => ({
    ...request(ref),
    project: { ...named(ref), suspended: true },
    existed: true,
  });

  test('a suspended project’s database accepts no connection, and has its data when resumed', async ({ under }) => {
    await under.databases.ensure(request('still'));
    const client = new pg.Client(under.login('still', ownerRole('still'), 'owner-1'));
    const sentAway = new Promise<void>((resolve) => client.on('error', () => resolve()));
    await client.connect();
    await client.query('CREATE TABLE kept AS SELECT 7 AS id');
    for (const _ of ['suspended', 'and looked at again']) {
      assert.is((await under.databases.ensure(suspended('still'))).state, 'ready');
      await sentAway;
      assert.is(await enter(under, 'still', 'owner-1'), '55000');
    }
    assert.is((await under.databases.ensure({ ...request('still'), existed: true })).state, 'ready');
    assert.equal(await under.databases.ensure({ ...request('still'), existed: true }), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await idsKept(under, 'still', 'owner-1'), [{ id: 7 }]);
  });

  test('a retained database accepts no connection, and only its own owner gets it, with its data', async ({
    under,
  }) => {
    const own = named('stays');
    const other = { ...own, owner: 'other@example.com', uid: 'uid-other' };
    await under.databases.ensure(request('stays'));
    const client = new pg.Client(under.login('stays', ownerRole('stays'), 'owner-1'));
    client.on('error', () => {});
    await client.connect();
    await client.query('CREATE TABLE kept AS SELECT 7 AS id');
    for (const _ of ['retained', 'and again']) {
      assert.is((await under.databases.remove(removal('stays', true))).state, 'ready');
    }
    assert.is.not(await enter(under, 'stays', 'owner-1'), 'in');
    const refused = await under.databases.ensure({ ...request('stays', '2'), project: other });
    assert.is(refused.state === 'failed' && refused.reason, 'DatabaseRetained');
    for (const retain of [true, false]) {
      assert.is((await under.databases.remove({ ...request('stays', '2'), ...other, retain })).state, 'ready');
    }
    assert.is((await under.databases.ensure(request('stays', '2'))).state, 'ready');
    assert.equal(await idsKept(under, 'stays', 'owner-2'), [{ id: 7 }]);
    await under.databases.remove({ ...request('stays', '2'), ...own, retain: false });
    assert.equal(await under.leftovers('stays'), []);
    await client.end().catch(() => {});
  });

  test('another project’s database under the same name is neither adopted nor dropped', async ({ under }) => {
    await under.databases.ensure(request('left'));
    const other = { ...named('left'), owner: 'other@example.com', uid: 'uid-other' };
    const refused = await under.databases.ensure({ ...request('left', '2'), project: other });
    assert.is(refused.state === 'failed' && refused.reason, 'DatabaseTaken');
    assert.is((await under.databases.remove({ ...removal('left'), ...request('left', '2'), ...other })).state, 'ready');
    assert.ok(await loginWorks(under, 'left', 'owner-1'));
    const rotated = { ...request('left', '2'), former: request('left').passwords };
    assert.is((await under.databases.ensure(rotated)).state, 'ready', 'its own, whose passwords are rotated');
    await under.databases.remove({ ...removal('left'), ...rotated });
  });

  test('a removal succeeds when owners changed their database or the roles of others', async ({ under }) => {
    for (const ref of ['granted', 'grants']) await under.databases.ensure(request(ref));
    const owner = async (ref: string, sql: string) => {
      const client = new pg.Client(under.login(ref, ownerRole(ref), 'owner-1'));
      await client.connect();
      await client.query(sql).finally(() => client.end());
    };
    await owner(
      'grants',
      `CREATE SCHEMA own; CREATE TABLE own.bait (id int); GRANT SELECT ON own.bait TO "${ownerRole('granted')}"`,
    );
    await owner('granted', `ALTER DATABASE "${databaseOf('granted')}" IS_TEMPLATE true`);
    assert.is((await under.databases.remove(removal('granted'))).state, 'ready');
    assert.equal(await under.leftovers('granted'), []);
    assert.is((await under.databases.ensure(request('granted', '2'))).state, 'ready');
    await owner(
      'grants',
      `DO $$ BEGIN IF has_table_privilege('${ownerRole('granted')}', 'own.bait', 'SELECT') ` +
        `THEN RAISE 'inherited'; END IF; END $$`,
    );
    await under.databases.remove({ ...removal('granted'), ...request('granted', '2') });
    await under.databases.remove(removal('grants'));
  });

  /** Statements of an owner in a transaction that stays open. */
  const HELD = {
    'its database': (ref: string) => `ALTER DATABASE "${databaseOf(ref)}" CONNECTION LIMIT 19`,
    'its role': (ref: string) => `ALTER ROLE "${ownerRole(ref)}" PASSWORD 'mine'`,
    'its database’s comment': (ref: string) => `COMMENT ON DATABASE "${databaseOf(ref)}" IS 'mine'`,
    'a role that all share': () => `SET ROLE anon; ALTER ROLE anon PASSWORD 'mine'`,
  };
  for (const [what, sql] of Object.entries(HELD)) {
    test(`an owner who changes ${what} in an open transaction delays nothing`, async ({ under }) => {
      await under.databases.ensure(request('held'));
      const again = { ...request('held', '2'), existed: true };
      const suspended = { ...again, project: { ...named('held'), suspended: true } };
      const steps: [password: string, step: () => Promise<EngineOutcome>][] = [
        ['owner-1', () => under.databases.ensure(again)],
        ['owner-2', () => under.databases.ensure(suspended)],
        ['owner-2', () => under.databases.remove({ ...removal('held'), ...again })],
      ];
      for (const [password, step] of steps) {
        await under.databases.ensure({ ...again, passwords: { ...again.passwords, owner: password } });
        const client = new pg.Client(under.login('held', ownerRole('held'), password));
        client.on('error', () => {});
        await client.connect();
        await client.query(`SET idle_in_transaction_session_timeout = 0; BEGIN; ${sql('held')}`);
        assert.is((await step()).state, 'ready');
        await client.end().catch(() => {});
      }
      assert.equal(await under.leftovers('held'), []);
    });
  }

  test('an owner who keeps opening the database, or makes it a template, stops no suspension or removal', async ({
    under,
  }) => {
    await under.databases.ensure(request('loops'));
    const steps: [option: string, step: () => Promise<EngineOutcome>][] = [
      ['ALLOW_CONNECTIONS', () => under.databases.ensure(suspended('loops'))],
      ['IS_TEMPLATE', () => under.databases.remove(removal('loops'))],
    ];
    for (const [option, step] of steps) {
      await under.databases.ensure({ ...request('loops'), existed: true });
      const client = new pg.Client(under.login('loops', ownerRole('loops'), 'owner-1'));
      const ended = new Promise<void>((resolve) => client.once('end', () => resolve()));
      client.on('error', () => {});
      await client.connect();
      const loop = `DO $$ BEGIN LOOP ALTER DATABASE "${databaseOf('loops')}" ${option} true; COMMIT; END LOOP; END $$`;
      client.query(loop).catch(() => {});
      assert.is((await step()).state, 'ready');
      await ended;
      assert.is.not(await enter(under, 'loops', 'owner-1'), 'in');
    }
    assert.equal(await under.leftovers('loops'), []);
  });

  test('a key counts as accepted once all verifiers accept it, and as in progress while one rejects it', async ({
    under,
  }) => {
    const taken = await under.services.verifiersAccept({ project: named('served'), anonKey: 'key' });
    assert.is(taken.state, 'ready');
    const refused = await under.services.verifiersAccept({ project: named('silent'), anonKey: 'key' });
    assert.match(refused.state === 'progressing' ? refused.message : '', /next JWT secret \(HTTP 404\)/);
  });

  test('services that do not respond are named, and the services are ready only when all respond', async ({
    under,
  }) => {
    await under.databases.ensure(request('served'));
    const { outcome } = await under.services.ensure({ project: named('served'), anonKey: 'key' });
    assert.is(outcome.state, 'ready');
    assert.ok(outcome.state === 'ready' && outcome.value.services.auth?.up && outcome.value.services.rest?.up);
    const storage = outcome.state === 'ready' ? outcome.value.services.storage : undefined;
    assert.is(storage?.status, 'unavailable');
    assert.match(storage?.reason ?? '', /^storage is not available here: .*SLIPWAY_SERVICES_SHARED=/);
    const { outcome: silent } = await under.services.ensure({ project: named('silent'), anonKey: 'key' });
    assert.is(silent.state, 'progressing');
    assert.match(
      silent.state === 'progressing' ? silent.message : '',
      /rest \(HTTP 404\) and auth \(HTTP 404\) and realtime/,
    );
  });

  test.run();
}
