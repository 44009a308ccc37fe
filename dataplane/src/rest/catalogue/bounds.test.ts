/** Bounds on the number and bytes of catalog objects that a project's owner creates. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Pool } from '../../sql/pool.js';
import { until } from '../../testing/until.js';
import { type RestHarness, startRestHarness } from '../testing.js';
import { CatalogueTooLarge, loadCatalogue } from './load.js';

let rest: RestHarness;

test.before(async () => {
  rest = await startRestHarness('create table todos (id int primary key, body text default $$x$$)');
});
test.after(() => rest?.close());

const status = async () => (await rest.ask('GET', '/todos', { role: 'service_role' })).status;

test('comments and defaults of 100 MB are cut where the catalogue is read', async () => {
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

test('an answer of more than is received is an error with a code, and the next request is answered', async () => {
  await rest.sql(`create function large() returns text language sql as $$ select repeat('x', 100000000) $$`);
  await rest.sql(
    `create function loud() returns int language plpgsql as $$ begin raise '%', repeat('x', 200000000); end $$`,
  );
  for (const name of ['large', 'loud']) {
    const asked = () => rest.ask('POST', `/rpc/${name}`, { role: 'service_role', body: {} });
    await until(async () => (await asked()).status !== 404, name);
    const answer = await asked();
    assert.is(answer.status, 500, answer.text.slice(0, 200));
    assert.is(answer.body.code, '54000');
    assert.match(answer.body.message, /larger than \d+ bytes/);
    assert.is(await status(), 200);
  }
});

test('more relations, functions or bytes than the limits are refused before they are read', async () => {
  await rest.sql(`do $$ begin for i in 1..30 loop
    execute format('create function many_%s() returns int language sql return 1', i); end loop; end $$`);
  const pool = new Pool(rest.postgres.admin());
  const load = (limits: object) =>
    loadCatalogue(
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

test.run();
