/** Tests queries on a real database with a real owner role. The tests write to the Project in place of the operator. */

import { ownerRole, queryRole, SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { DeadlineReached, runQuery } from '../sql/query-connection.js';
import { register, secretsOf, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const { token } = await register(api);
const { id, ref } = (await api.call('POST', '/projects', { token, json: { name: 'queried' } })).body;
const query = (sql: string) => api.call('POST', `/projects/${id}/query`, { token, json: { sql } });

test('a query of a project that is not provisioned yet returns 409', async () => {
  const { status, body } = await query('select 1');
  assert.is(status, 409);
  assert.is(body.code, 'project_not_ready');
});

test('a query returns columns, rows, command and counts', async () => {
  await api.operator.provision(ref);
  const { body } = await until(
    () => query("select 1 as id, 'a' as name, null as nothing"),
    ({ status }) => status === 200,
  );
  assert.equal(body.rows, [{ id: 1, name: 'a', nothing: null }]);
  assert.equal(body.columns.slice(0, 2), [
    { name: 'id', type: 'int4' },
    { name: 'name', type: 'text' },
  ]);
  assert.equal([body.command, body.row_count, body.truncated], ['SELECT', 1, false]);
  assert.type(body.duration_ms, 'number');
});

for (const [sql, value] of [
  ['9007199254740993::int8', '9007199254740993'],
  ['42::int8', 42],
  ['1.5::numeric', 1.5],
  ['12345678901234567890.5::numeric', '12345678901234567890.5'],
  ["'NaN'::float8", 'NaN'],
  ['0.1::float8', 0.1],
  ['true', true],
  [`'{"a":[1]}'::jsonb`, { a: [1] }],
  ["array['a b', null]", ['a b', null]],
  [
    'array[[1,2],[3,4]]',
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ["'\\xdeadbeef'::bytea", '\\xdeadbeef'],
  ["timestamptz '2026-01-05 09:00:00.5+00'", '2026-01-05T09:00:00.5+00:00'],
  ["timestamp '2026-01-05 09:00:00'", '2026-01-05T09:00:00'],
  ["date '2026-01-05'", '2026-01-05'],
] as const) {
  test(`${sql} is ${JSON.stringify(value)}`, async () => {
    const { body } = await query(`set timezone = 'UTC'; select ${sql} as value`);
    assert.equal(body.rows?.[0]?.value, value);
  });
}

test('several statements run as one transaction, and the response has the last and all results', async () => {
  const { body } = await query(
    'create table t (a int); insert into t select generate_series(1, 3); select sum(a) as sum, sum(a) as sum from t',
  );
  assert.equal(body.rows, [{ sum: 6, sum_2: 6 }]);
  assert.equal(
    body.results.map(({ command, row_count }: Record<string, unknown>) => [command, row_count]),
    [
      ['CREATE TABLE', 0],
      ['INSERT', 3],
      ['SELECT', 1],
    ],
  );
  assert.is((await query('insert into t values (9); select 1/0')).body.sqlstate, '22012');
  assert.equal((await query('select count(*) from t')).body.rows, [{ count: 3 }]);
});

test('an SQL error returns 400 with SQLSTATE, position and hint', async () => {
  const { status, body } = await query('select * from tt');
  assert.is(status, 400);
  assert.equal([body.code, body.sqlstate, body.position], ['sql_error', '42P01', 15]);
  assert.is((await query('selec 1')).body.sqlstate, '42601');
  assert.match((await query('select 1 where a = 1; select 2; select * from t where aa = 1')).body.sqlstate, /42703/);
});

test('a result is truncated to 1000 rows and reports it, and the statement’s changes are complete', async () => {
  const one = await query('select * from generate_series(1, 100000)');
  assert.equal([one.body.rows.length, one.body.truncated, one.body.row_count], [1000, true, 1000]);
  const whole = await query('select * from generate_series(1, 1000)');
  assert.equal([whole.body.rows.length, whole.body.truncated], [1000, false]);
  const changed = await query(
    'create table many (a int); insert into many select generate_series(1, 5000) returning a',
  );
  assert.is(changed.body.truncated, true);
  assert.equal((await query('select count(*) from many')).body.rows, [{ count: 5000 }]);
  await query('insert into many select generate_series(1, 5000) returning a');
  assert.equal((await query('select count(*) from many')).body.rows, [{ count: 10_000 }]);
});

test('a result that exceeds the memory limit by one value or by many is rejected', async () => {
  assert.is((await query("select repeat('x', 100000000)")).body.code, 'result_too_large');
  const many = await query("select 1; select repeat('x', 100000) from generate_series(1, 2000)");
  assert.is(many.body.code, 'result_too_large');
  const within = await query("select repeat('x', 1000000) from generate_series(1, 20)");
  assert.equal([within.body.truncated, within.body.rows.length < 20], [true, true]);
});

test('json of a thousand levels is returned', async () => {
  const { body } = await query("select (repeat('[', 1000) || repeat(']', 1000))::json as deep");
  assert.is(JSON.stringify(body.rows[0].deep), '['.repeat(1000) + ']'.repeat(1000));
});
for (const [what, sql] of [
  ['json', "select (repeat('[', 1001) || repeat(']', 1001))::json"],
  ['an array of json', "select array[(repeat('[', 5000) || repeat(']', 5000))::json]"],
  ['jsonb', `select (repeat('{"a":', 5000) || 1 || repeat('}', 5000))::jsonb`],
]) {
  test(`${what} that is nested too deep is rejected`, async () => {
    const { status, body } = await query(sql as string);
    assert.equal([status, body.code], [400, 'result_too_large'], JSON.stringify(body).slice(0, 300));
  });
}

test('columns count by their bytes, and a thousand columns of one name are numbered quickly', async () => {
  const wide = Array.from({ length: 1_600 }, (_, at) => `null as "${String(at).padStart(60, 'x')}"`).join();
  const rows = await query(`select ${wide} from generate_series(1, 1000)`);
  assert.equal([rows.body.truncated, rows.body.rows.length < 100], [true, true]);
  const described = await query(
    `create table wide (${Array.from({ length: 1_000 }, (_, at) => `c${at} int`)}); ${'table wide; '.repeat(5_000)}`,
  );
  assert.is(described.body.code, 'result_too_large');
  const same = await query(`${`select ${'1,'.repeat(1_600)}1; `.repeat(100)}`);
  assert.is(same.status, 200);
  assert.is(same.body.columns.at(-1).name, '?column?_1601');
});

test('SQL of more than 10,000 statements is rejected, however short they are', async () => {
  const within = await query('select;'.repeat(10_000));
  assert.equal([within.status, within.body.results.length], [200, 10_000]);
  const { status, body } = await query('select;'.repeat(60_000));
  assert.equal([status, body.code], [400, 'too_many_statements'], JSON.stringify(body).slice(0, 300));
  assert.match(body.detail, /more than 10000 statements/);
});

test('endless notices of a query have the same limit as results', async () => {
  const { body } = await query(
    `do $$ begin for n in 1..200 loop raise notice '%', repeat('x', 1000000); end loop; end $$`,
  );
  assert.is(body.code, 'result_too_large');
});

test("a query runs as the project's own role, and its session state is not kept", async () => {
  const who = await query('set search_path = pg_catalog; set role none; select session_user::text as who');
  assert.equal(who.body.rows, [{ who: ownerRole(ref) }]);
  await query("select set_config('my.secret', 'x', false); create temporary table left_over (a int); listen me");
  assert.equal((await query("select current_setting('my.secret', true) as s")).body.rows, [{ s: null }]);
  assert.is((await query('select * from left_over')).body.sqlstate, '42P01');
  assert.is((await query('begin; create table never (a int)')).status, 200);
  assert.is((await query('select * from never')).body.sqlstate, '42P01');
});

for (const sql of [
  "copy (select 1) to program 'id'",
  "select pg_read_file('/etc/passwd')",
  'alter system set work_mem = 1',
  'create role evil superuser',
  'set role postgres',
  'copy t from stdin',
]) {
  test(`${sql} is rejected`, async () => {
    assert.is((await query(sql)).status, 400);
  });
}

test('an endless query that turns off its timeout is cancelled on the server too', async () => {
  const credentials = {
    host: String(api.cluster.postgres.admin().host),
    port: String(api.cluster.postgres.admin().port),
    database: `p-${ref}`,
    'owner-password': 'owner',
  };
  const sql =
    'set statement_timeout = 0; do $$ begin loop begin perform pg_sleep(1000); ' +
    'exception when query_canceled then null; end; end loop; end $$';
  const outcome = await runQuery(ref, credentials, sql, {
    mode: 'owner',
    signal: new AbortController().signal,
    deadline: 500,
  }).catch((error: unknown) => error);
  assert.instance(outcome, DeadlineReached);
  await until(
    async () =>
      (
        await api.admin.query("select from pg_stat_activity where usename = $1 and query ~ 'query_canceled'", [
          ownerRole(ref),
        ])
      ).rowCount,
    (count) => count === 0,
  );
});

test('a query returns 503 if its session is ended, and 400 if its own SQL raises the same code', async () => {
  const ended = await query('select pg_terminate_backend(pg_backend_pid())');
  assert.is(ended.status, 503, JSON.stringify(ended.body));
  assert.match(ended.body.detail, /^The connection to the project's database was lost\. Try again\.$/);
  assert.ok(ended.headers['retry-after']);
  const raised = await query("do $$ begin raise 'mine' using errcode = '57P01'; end $$");
  assert.is(raised.status, 400, JSON.stringify(raised.body));
  assert.equal([raised.body.sqlstate, raised.body.detail], ['57P01', 'mine']);
});

test('a fifth concurrent query of a project returns 429 with Retry-After', async () => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => query('select pg_sleep(1)')));
  const refused = answers.filter(({ status }) => status === 429);
  assert.is(refused.length, 2);
  assert.ok(refused[0]?.headers['retry-after']);
});

test('a disconnect frees the place of a query, and cancels its statement on the server', async () => {
  const caller = new AbortController();
  const sql = "select pg_sleep(20), 'left alone'";
  const asking = Array.from({ length: 4 }, () =>
    api.call('POST', `/projects/${id}/query`, { token, json: { sql }, signal: caller.signal }).catch(() => 'closed'),
  );
  const running = async () =>
    (await api.admin.query("select from pg_stat_activity where state = 'active' and query like '%left alone%'"))
      .rowCount;
  // The query that looks is one of them.
  await until(running, (count) => count === 5);
  assert.is((await query('select 1')).status, 429);
  const begin = performance.now();
  caller.abort();
  assert.equal(await Promise.all(asking), Array(4).fill('closed'));
  await until(
    () => query('select 1'),
    ({ status }) => status === 200,
  );
  await until(running, (count) => count === 1);
  assert.ok(performance.now() - begin < 15_000);
});

test('a query runs as the owner while the operator has closed the owner’s login', async () => {
  const [owner, acting] = [ownerRole(ref), queryRole(ref)];
  await query('create table kept (a int)');
  await api.admin.query(`alter role "${owner}" nologin`);
  const refused = await query('select 1');
  assert.equal([refused.status, refused.body.code], [503, 'unavailable']);
  assert.not.match(refused.body.detail, /shut/, 'the installation has no other login');
  await api.admin.query(`create role "${acting}" login password 'authenticator' in role "${owner}"`);
  const { body } = await query('truncate kept; select current_user::text, tableowner from pg_tables');
  assert.equal(body.rows[0]?.current_user, owner);
  await api.admin.query(`alter role "${acting}" nologin`);
  const closed = await query('select 1');
  assert.match(closed.body.detail, /its quota, and is closed\. The condition DatabaseHasRoom/);
  assert.is(closed.headers['retry-after'], '60');
  await api.admin.query(`alter role "${owner}" login; drop role "${acting}"`);
});

test('queries succeed during a rotation of passwords', async () => {
  const { name, ownerPassword, nextOwnerPassword } = SECRETS.database;
  const path = `${secretsOf(ref)}/${name}`;
  const secret = await api.operator.client.get<Secret>(path);
  const write = (values: Record<string, string>) =>
    api.operator.client.request({
      method: 'PUT',
      path,
      body: {
        metadata: { name, ...(secret.metadata?.labels && { labels: secret.metadata.labels }) },
        data: { ...secret.data, ...encoded(values) },
      },
    });
  const answers: number[] = [];
  let rotates = true;
  const asking = Array.from({ length: 3 }, async () => {
    while (rotates) answers.push((await query('select 1')).status);
  });
  for (let rotation = 1, shown = 'owner'; rotation <= 10; rotation++) {
    const next = `owner-${rotation}`;
    await write({ [ownerPassword]: shown, [nextOwnerPassword]: next });
    await api.admin.query(`alter role "${ownerRole(ref)}" password '${next}'`);
    await write({ [ownerPassword]: next });
    shown = next;
  }
  rotates = false;
  await Promise.all(asking);
  assert.ok(answers.length > 0);
  assert.equal([...new Set(answers)], [200]);
});

const encoded = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]));

test.run();
