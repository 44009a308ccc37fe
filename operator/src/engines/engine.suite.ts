/**
 * The contract of every engine. In: a started engine, and how to inspect the objects that it made. Run by each engine's
 * own test.
 */

import { databaseOf, ownerRole, type Region } from '@slipway/crds';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { DatabaseRequest, Engine, EngineOutcome, EngineProject } from './engine.js';

export interface EngineUnderTest {
  engine: Engine;
  /** The database's address for this test's own clients. */
  login(ref: string, role: string, password: string): pg.ClientConfig;
  /** Lists leftovers of `ref` by name: databases, roles, objects. */
  leftovers(ref: string): Promise<string[]>;
  /** Where projects are asked for; without it, eu-central. */
  region?: Region;
}

/** Returns the project as the controller describes it to an engine. */
export const projectNamed = (ref: string, region: Region = 'eu-central'): EngineProject => ({
  ref,
  uid: `uid-${ref}`,
  owner: 'owner@example.com',
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
  /** `in`, or the code of the refusal. */
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

  test('a database that is asked for is ready, and its owner logs in with the password that was given', async ({
    under,
  }) => {
    assert.equal(await under.engine.ensureDatabase(request('born')), { state: 'ready', value: undefined });
    assert.ok(await loginWorks(under, 'born', 'owner-1'));
    assert.not(await loginWorks(under, 'born', 'owner-2'));
  });

  test('asking again changes nothing, and another password takes the place of the first', async ({ under }) => {
    await under.engine.ensureDatabase(request('again'));
    const client = new pg.Client(under.login('again', ownerRole('again'), 'owner-1'));
    await client.connect();
    await client.query('CREATE TABLE kept (id int)');
    await client.end();
    assert.is((await under.engine.ensureDatabase(request('again'))).state, 'ready');
    assert.is((await under.engine.ensureDatabase({ ...request('again', '2'), existed: true })).state, 'ready');
    assert.not(await loginWorks(under, 'again', 'owner-1'));
    const later = new pg.Client(under.login('again', ownerRole('again'), 'owner-2'));
    await later.connect();
    assert.equal((await later.query('SELECT * FROM kept')).rows, []);
    await later.end();
  });

  test('many that are asked for at once are all made, each with its own', async ({ under }) => {
    const refs = Array.from({ length: 12 }, (_, index) => `many-${index}`);
    const outcomes = await Promise.all(refs.map((ref) => under.engine.ensureDatabase(request(ref))));
    assert.ok(outcomes.every(({ state }) => state === 'ready'));
    for (const ref of refs) assert.ok(await loginWorks(under, ref, 'owner-1'), ref);
    await Promise.all(refs.map((ref) => under.engine.remove(removal(ref))));
  });

  test('what is removed leaves nothing, connections or not, and removing it again is no error', async ({ under }) => {
    await under.engine.ensureDatabase(request('gone'));
    const client = new pg.Client(under.login('gone', ownerRole('gone'), 'owner-1'));
    client.on('error', () => {});
    await client.connect();
    assert.equal(await under.engine.remove(removal('gone')), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await under.leftovers('gone'), []);
    assert.equal(await under.engine.remove(removal('gone')), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await under.engine.remove(removal('never-was')), {
      state: 'ready',
      value: undefined,
    });
    await client.end().catch(() => {});
  });

  test('a project made anew under the name of one that is gone gets an empty database', async ({ under }) => {
    await under.engine.ensureDatabase(request('anew'));
    const client = new pg.Client(under.login('anew', ownerRole('anew'), 'owner-1'));
    await client.connect();
    await client.query('CREATE TABLE old (id int)');
    await client.end();
    await under.engine.remove(removal('anew'));
    await under.engine.ensureDatabase(request('anew', '2'));
    const later = new pg.Client(under.login('anew', ownerRole('anew'), 'owner-2'));
    await later.connect();
    const refusal = await later.query('SELECT * FROM old').catch((error) => error.code);
    await later.end();
    assert.is(refusal, '42P01');
  });

  test('a database that was there once and is not is said to be lost, and no empty one takes its place', async ({
    under,
  }) => {
    const outcome = await under.engine.ensureDatabase({ ...request('lost'), existed: true });
    assert.is(outcome.state, 'failed');
    assert.is(outcome.state === 'failed' && outcome.reason, 'DatabaseLost');
    assert.equal(await under.leftovers('lost'), []);
  });

  const suspended = (ref: string): DatabaseRequest => ({
    ...request(ref),
    project: { ...named(ref), suspended: true },
    existed: true,
  });

  test('the database of a suspended project lets nobody in, sends away who is, stays so, and has its data when it goes on', async ({
    under,
  }) => {
    await under.engine.ensureDatabase(request('still'));
    const client = new pg.Client(under.login('still', ownerRole('still'), 'owner-1'));
    const sentAway = new Promise<void>((resolve) => client.on('error', () => resolve()));
    await client.connect();
    await client.query('CREATE TABLE kept AS SELECT 7 AS id');
    for (const _ of ['suspended', 'and looked at again']) {
      assert.is((await under.engine.ensureDatabase(suspended('still'))).state, 'ready');
      await sentAway;
      assert.is(await enter(under, 'still', 'owner-1'), '55000');
    }
    assert.is((await under.engine.ensureDatabase({ ...request('still'), existed: true })).state, 'ready');
    assert.equal(await under.engine.ensureDatabase({ ...request('still'), existed: true }), {
      state: 'ready',
      value: undefined,
    });
    assert.equal(await idsKept(under, 'still', 'owner-1'), [{ id: 7 }]);
  });

  test('a database that is retained lets nobody in, is kept from another owner whatever they do, and is given to its own with its data', async ({
    under,
  }) => {
    const own = named('stays');
    const other = { ...own, owner: 'other@example.com', uid: 'uid-other' };
    await under.engine.ensureDatabase(request('stays'));
    const client = new pg.Client(under.login('stays', ownerRole('stays'), 'owner-1'));
    client.on('error', () => {});
    await client.connect();
    await client.query('CREATE TABLE kept AS SELECT 7 AS id');
    for (const _ of ['retained', 'and again']) {
      assert.is((await under.engine.remove(removal('stays', true))).state, 'ready');
    }
    assert.is.not(await enter(under, 'stays', 'owner-1'), 'in');
    const refused = await under.engine.ensureDatabase({ ...request('stays', '2'), project: other });
    assert.is(refused.state === 'failed' && refused.reason, 'DatabaseRetained');
    for (const retain of [true, false]) {
      assert.is((await under.engine.remove({ ...request('stays', '2'), ...other, retain })).state, 'ready');
    }
    assert.is((await under.engine.ensureDatabase(request('stays', '2'))).state, 'ready');
    assert.equal(await idsKept(under, 'stays', 'owner-2'), [{ id: 7 }]);
    await under.engine.remove({ ...request('stays', '2'), ...own, retain: false });
    assert.equal(await under.leftovers('stays'), []);
    await client.end().catch(() => {});
  });

  test('a database under the name of a project that is not its own is given to nobody, and not dropped with who asked for it', async ({
    under,
  }) => {
    await under.engine.ensureDatabase(request('left'));
    const other = { ...named('left'), owner: 'other@example.com', uid: 'uid-other' };
    const refused = await under.engine.ensureDatabase({ ...request('left', '2'), project: other });
    assert.is(refused.state === 'failed' && refused.reason, 'DatabaseTaken');
    assert.is((await under.engine.remove({ ...removal('left'), ...request('left', '2'), ...other })).state, 'ready');
    assert.ok(await loginWorks(under, 'left', 'owner-1'));
    const rotated = { ...request('left', '2'), former: request('left').passwords };
    assert.is((await under.engine.ensureDatabase(rotated)).state, 'ready', 'its own, whose passwords are rotated');
    await under.engine.remove({ ...removal('left'), ...rotated });
  });

  test('what owners do to their database and to others’ roles stands in the way of no removal', async ({ under }) => {
    for (const ref of ['granted', 'grants']) await under.engine.ensureDatabase(request(ref));
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
    assert.is((await under.engine.remove(removal('granted'))).state, 'ready');
    assert.equal(await under.leftovers('granted'), []);
    assert.is((await under.engine.ensureDatabase(request('granted', '2'))).state, 'ready');
    await owner(
      'grants',
      `DO $$ BEGIN IF has_table_privilege('${ownerRole('granted')}', 'own.bait', 'SELECT') THEN RAISE 'inherited'; END IF; END $$`,
    );
    await under.engine.remove({ ...removal('granted'), ...request('granted', '2') });
    await under.engine.remove(removal('grants'));
  });

  /** Each by its owner, in a transaction that is left open. */
  const HELD = {
    'its database': (ref: string) => `ALTER DATABASE "${databaseOf(ref)}" CONNECTION LIMIT 19`,
    'its role': (ref: string) => `ALTER ROLE "${ownerRole(ref)}" PASSWORD 'mine'`,
    'its database’s comment': (ref: string) => `COMMENT ON DATABASE "${databaseOf(ref)}" IS 'mine'`,
    'a role that all share': () => `SET ROLE anon; ALTER ROLE anon PASSWORD 'mine'`,
  };
  for (const [what, sql] of Object.entries(HELD)) {
    test(`an owner that changes ${what} in a transaction that it leaves open holds up nothing`, async ({ under }) => {
      await under.engine.ensureDatabase(request('held'));
      const again = { ...request('held', '2'), existed: true };
      const suspended = { ...again, project: { ...named('held'), suspended: true } };
      const steps: [password: string, step: () => Promise<EngineOutcome>][] = [
        ['owner-1', () => under.engine.ensureDatabase(again)],
        ['owner-2', () => under.engine.ensureDatabase(suspended)],
        ['owner-2', () => under.engine.remove({ ...removal('held'), ...again })],
      ];
      for (const [password, step] of steps) {
        await under.engine.ensureDatabase({ ...again, passwords: { ...again.passwords, owner: password } });
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

  test('an owner that opens its database again and again, or makes a template of it, keeps it neither from standing still nor from going', async ({
    under,
  }) => {
    await under.engine.ensureDatabase(request('loops'));
    const steps: [option: string, step: () => Promise<EngineOutcome>][] = [
      ['ALLOW_CONNECTIONS', () => under.engine.ensureDatabase(suspended('loops'))],
      ['IS_TEMPLATE', () => under.engine.remove(removal('loops'))],
    ];
    for (const [option, step] of steps) {
      await under.engine.ensureDatabase({ ...request('loops'), existed: true });
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

  test('a key is taken when who verifies it answers, and waited for when it is refused', async ({ under }) => {
    const taken = await under.engine.verifiersAccept({ project: named('served'), anonKey: 'key' });
    assert.is(taken.state, 'ready');
    const refused = await under.engine.verifiersAccept({ project: named('silent'), anonKey: 'key' });
    assert.match(refused.state === 'progressing' ? refused.message : '', /next JWT secret \(HTTP 404\)/);
  });

  test('services that do not answer are named, and ready only when all do', async ({ under }) => {
    await under.engine.ensureDatabase(request('served'));
    const { outcome } = await under.engine.ensureServices({ project: named('served'), anonKey: 'key' });
    assert.is(outcome.state, 'ready');
    assert.ok(outcome.state === 'ready' && outcome.value.services.auth?.up && outcome.value.services.rest?.up);
    assert.is(outcome.state === 'ready' && outcome.value.services.storage?.status, 'unavailable');
    const { outcome: silent } = await under.engine.ensureServices({ project: named('silent'), anonKey: 'key' });
    assert.is(silent.state, 'progressing');
    assert.match(
      silent.state === 'progressing' ? silent.message : '',
      /rest \(HTTP 404\) and auth \(HTTP 404\) and realtime/,
    );
  });

  test.run();
}
