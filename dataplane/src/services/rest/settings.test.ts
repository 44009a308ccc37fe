import { REST_SETTINGS } from '@slipway/installation';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { restSettings } from './catalogue/settings.js';
import { startRestHarness } from './testing.js';

const test = suite('settings');

test('REST settings are parsed, and invalid settings count as absent', () => {
  const none = restSettings({}, ['public']);
  assert.equal(
    [none.schemas, none.extraSearchPath, none.aggregates, none.plan, none.maxRows, none.transactionEnd, none.openapi],
    [['public'], ['public', 'extensions'], false, false, undefined, 'commit', 'follow-privileges'],
  );
  const set = restSettings(
    {
      db_schemas: 'api, "odd name", pg_catalog',
      db_extra_search_path: 'more',
      db_aggregates_enabled: 'on',
      db_plan_enabled: 'TRUE',
      db_max_rows: '10',
      db_tx_end: 'rollback-allow-override',
      db_pre_request: 'api.before',
      openapi_mode: 'disabled',
      client_error_verbosity: 'minimal',
    },
    ['public'],
  );
  assert.equal(set, {
    schemas: ['api', 'odd name'],
    extraSearchPath: ['more'],
    aggregates: true,
    plan: true,
    maxRows: 10,
    preRequest: { schema: 'api', name: 'before' },
    transactionEnd: 'rollback-allow-override',
    openapi: 'disabled',
    verboseErrors: false,
  });
  const nonsense = { db_schemas: ' , ', db_max_rows: '-1', db_tx_end: 'x', openapi_mode: 'y', db_pre_request: 'a.b.c' };
  assert.equal(restSettings(nonsense, ['public']), none);
});

test('an owner can set pgrst settings on the database after the grant, and unknown ones are ignored', async () => {
  const rest = await startRestHarness(`create table t (id int); insert into t values (1), (2);
    create schema more; grant usage on schema more to service_role;
    create function more.helper() returns int language sql immutable as 'select 7';
    create function uses_helper() returns int language plpgsql stable as $$ begin return helper(); end $$;
    create role owner login password 'owner'; create role postgres_owners; grant postgres_owners to owner;
    alter database postgres owner to owner;`);
  try {
    await rest.sql(REST_SETTINGS.map((name) => `grant set on parameter "pgrst.${name}" to postgres_owners`).join(';'));
    const owner = new pg.Client({ ...rest.postgres.admin(), user: 'owner', password: 'owner' });
    await owner.connect();
    await owner.query(
      `do $$ begin execute format('alter database %I set pgrst.db_max_rows = 1', current_database()); end $$`,
    );
    await owner.query(`alter database postgres set pgrst.db_extra_search_path = 'more'`);
    await assertRejects(owner.query(`alter database postgres set pgrst.jwt_secret = 'x'`));
    await owner.query(`notify pgrst, 'reload config'`);
    await owner.end();
    await rest.sql(`alter role anon set pgrst.db_max_rows = 0; alter database postgres set pgrst.jwt_secret = 'x'`);
    assert.equal((await rest.ask('GET', '/t')).body, [{ id: 1 }]);
    // extra search path
    assert.is((await rest.ask('GET', '/rpc/uses_helper')).body, 7);
  } finally {
    await rest.close();
  }
});

async function assertRejects(work: Promise<unknown>): Promise<void> {
  await work.then(
    () => assert.unreachable(),
    (error: { code: string }) => assert.is(error.code, '42501'),
  );
}

test.run();
