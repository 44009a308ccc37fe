/** Tests limits on the number and bytes of catalogue objects that a project's owner creates. */

import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../../projects/tenant.js';
import { Pool } from '../../../sql/pool.js';
import { tenantWithoutDatabase } from '../../../testing/tenant.js';
import { TenantDatabases } from '../tenant-databases.js';
import { type RestHarness, startRestHarness, type TestResponse } from '../testing.js';
import { CatalogueTooLarge, loadCatalogue } from './load.js';

let rest: RestHarness;

test.before(async () => {
  rest = await startRestHarness('create table todos (id int primary key, body text default $$x$$)');
});
test.after(() => rest?.close());

const status = async () => (await rest.ask('GET', '/todos', { role: 'service_role' })).status;

test('comments and defaults of 100 MB are truncated by the query of the catalogue', async () => {
  assert.is(await status(), 200);
  await rest.sql(`do $$ begin
    execute format('comment on table todos is %L', repeat('t', 100000000));
    execute format('comment on column todos.body is %L', repeat('c', 100000000));
    execute format('comment on schema public is %L', repeat('s', 100000000));
    execute format('alter table todos alter body set default %L', repeat('d', 10000000));
    execute 'create function described() returns int language sql as ''select 1''';
    execute format('comment on function described() is %L', repeat('f', 100000000));
  end $$`);
  await until(
    async () => (await rest.ask('POST', '/rpc/described', { role: 'service_role', body: {} })).status === 200,
    'the function',
  );
  const before = process.memoryUsage().rss;
  const { text, status: described } = await rest.ask('GET', '/', { role: 'service_role' });
  assert.is(described, 200);
  assert.ok(text.length < 100_000, String(text.length));
  assert.match(text, /t{4000}"/);
  assert.not.match(text, /t{4001}/);
  assert.ok(process.memoryUsage().rss - before < 100 * 1024 * 1024);
});

test('a catalogue beyond the limit is an error with a code, and the next request succeeds', async () => {
  await rest.sql(`create function large() returns text language sql as $$ select repeat('x', 100000000) $$`);
  await rest.sql(
    `create function loud() returns int language plpgsql as $$ begin raise '%', repeat('x', 200000000); end $$`,
  );
  for (const name of ['large', 'loud']) {
    let answer = { status: 404 } as TestResponse;
    await until(async () => {
      answer = await rest.ask('POST', `/rpc/${name}`, { role: 'service_role', body: {} });
      return answer.status !== 404;
    }, name);
    assert.is(answer.status, 500, answer.text.slice(0, 200));
    assert.is(answer.body.code, '54000');
    assert.match(answer.body.message, /larger than \d+ bytes/);
    assert.is(await status(), 200);
  }
});

test('relations, functions or bytes beyond the limits are rejected before they are read', async () => {
  await rest.sql(`do $$ begin for i in 1..30 loop
    execute format('create function many_%s() returns int language sql return 1', i); end loop; end $$`);
  const pool = new Pool(rest.postgres.admin());
  const load = (limits: object) =>
    loadCatalogue(
      'test',
      pool,
      { schemas: ['public'], given: {}, fromDatabase: true },
      { relations: 10, functions: 100, bytes: 1_000_000, ...limits },
    );
  try {
    await load({});
    for (const limits of [{ relations: 0 }, { functions: 29 }, { bytes: 1000 }]) {
      const error = await load(limits).catch((caught) => caught);
      assert.instance(error, CatalogueTooLarge, JSON.stringify(limits));
    }
  } finally {
    await pool.close();
  }
});

test('catalogues of all projects share a limit, which evicts the oldest of the account with the most', async () => {
  const tenantOf = (ref: string, account: string): BackendTenant => {
    const tenant = tenantWithoutDatabase(ref);
    return { ...tenant, authenticator: { ...rest.postgres.admin(), account } };
  };
  const settings = { schemas: ['public'], given: {}, fromDatabase: true };
  const first = new TenantDatabases(settings, { ofProject: 1, ofAll: 8 });
  await first.of(tenantOf('a', 'many')).current();
  const bytes = first.of(tenantOf('a', 'many')).catalogueBytes;
  await first.close();
  assert.ok(bytes > 0);
  const databases = new TenantDatabases(settings, { ofProject: 1, ofAll: 8 }, 3.5 * bytes);
  try {
    const [victim, ...others] = [
      ['v', 'one'],
      ['a', 'many'],
      ['b', 'many'],
      ['c', 'many'],
    ].map(([ref, account]) => databases.of(tenantOf(ref as string, account as string)));
    for (const database of [victim, ...others]) await database?.current();
    assert.is(victim?.catalogueBytes, bytes);
    assert.equal(
      others.map(({ catalogueBytes }) => catalogueBytes),
      [0, bytes, bytes],
    );
    assert.ok((await others[0]?.current())?.table('public', 'todos'));
  } finally {
    await databases.close();
  }
});

test.run();
