/** Tests that changes show the values of every type as the REST API does, which is Postgres' `to_jsonb`. */
import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { type RealtimeHarness, realtimeSuite } from './testing/harness.js';

const test = realtimeSuite('types of changes');

const TYPES = `
create domain score as int check (value >= 0);
create domain high_score as score check (value > 5);
create domain flag as bool;
create domain document as jsonb;
create domain words as text[];
create domain moment as timestamptz;
create domain ints as int[];
create type mood as enum ('glad', '{sad,a}');
create type _unlisted as enum ('{a,b}');
create domain feeling as mood;
create domain email as text;`;

const VALUES: [type: string, ...texts: string[]][] = [
  ['score', '5'],
  ['high_score', '6'],
  ['score[]', '{1,NULL,3}'],
  ['high_score[]', '{{6,7},{8,9}}'],
  ['flag', 't'],
  ['flag[]', '{t,f,NULL}'],
  ['document', '{"n": 9007199254740991, "a": [1.50]}', 'null'],
  ['document[]', '{"{\\"n\\": 1}"}'],
  ['words', '{x,y,"a b",NULL,"NULL"}'],
  ['moment', '2026-01-02 03:04:05.6+02', 'infinity', '0044-03-15 12:00:00+00 BC'],
  ['moment[]', '{"2026-01-02 03:04:05+00"}'],
  ['ints[]', '{"{1,2}","{3}",NULL}'],
  ['mood', 'glad', '{sad,a}'],
  ['mood[]', '{glad,"{sad,a}"}'],
  ['feeling', 'glad'],
  ['_unlisted', '{a,b}'],
  ['email', 'a@b.c'],
  ['bool', 'f'],
  ['int2', '-1'],
  ['int4', '2147483647'],
  ['int8', '9007199254740991'],
  ['numeric', '1.50', 'NaN', '-Infinity', '12345678901234567890.5'],
  ['float4', '1.5', 'Infinity'],
  ['float8', '1e+300', 'NaN'],
  ['money', '$1.50'],
  ['oid', '12'],
  ['regclass', 'pg_class'],
  ['int2vector', '1 2'],
  ['oidvector', '1 2'],
  ['"char"', 'a'],
  ['name', 'a b'],
  ['text', 'say "hi"\n', '{1,2}'],
  ['varchar(9)', 'é€😀'],
  ['bpchar(3)', 'a'],
  ['bytea', '\\x00ff'],
  ['uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['json', ' { "b" : 1, "a":\n 2 } ', '"text"', '1.0'],
  ['jsonb', '{"b": 1, "a": [null, true]}'],
  ['xml', '<a>b</a>'],
  ['date', '2026-01-02', '0044-03-15 BC', '-infinity'],
  ['time', '03:04:05.678'],
  ['timetz', '03:04:05+02'],
  ['timestamp', '2026-01-02 03:04:05', '0044-03-15 12:00:00 BC'],
  ['timestamptz', '2026-01-02 03:04:05.678+05:30'],
  ['interval', '1 year 2 mons 3 days 04:05:06'],
  ['int4range', '[1,5)', 'empty'],
  ['tstzrange', '["2026-01-02 03:04:05+00",)'],
  ['int4multirange', '{[1,3),[5,7)}'],
  ['int4range[]', '{"[1,5)"}'],
  ['point', '(1,2)'],
  ['box', '(2,2),(1,1)'],
  ['box[]', '{(2,2),(1,1);(4,4),(3,3)}'],
  ['inet', '192.168.0.1/24'],
  ['cidr', '10.0.0.0/8'],
  ['macaddr', '08:00:2b:01:02:03'],
  ['bit(3)', '101'],
  ['tsvector', "'a':1 'b':2"],
  ['tsquery', "'a' & 'b'"],
  ['jsonpath', '$."a"'],
  ['pg_lsn', '16/B374D848'],
  ['int4[]', '[2:3]={1,2}', '{{1,2},{3,4}}', '{}'],
  ['text[]', '{a,"b,\\"c\\\\",NULL,"NULL"}'],
  ['timestamp[]', '{"2026-01-02 03:04:05"}'],
];

const COLUMNS = VALUES.map(([type], at) => `c${at} ${type}`).join(', ');
const ROWS = Math.max(...VALUES.map(([, ...texts]) => texts.length));

/** Subscribes without a client library: realtime-js converts some types once more. */
async function open(harness: RealtimeHarness, tenant: BackendTenant, ...filters: { table: string; filter?: string }[]) {
  const socket = await harness.socket(tenant);
  const changes = filters.map((filter) => ({ event: '*', schema: 'public', ...filter }));
  await socket.ask('realtime:types', 'phx_join', { config: { postgres_changes: changes } });
  await until(() => JSON.stringify(socket.events('system')).includes('Subscribed to PostgreSQL'), 'the subscription');
  return () => socket.events('postgres_changes').map(({ payload }) => payload as unknown as Payload);
}

interface Payload {
  ids: number[];
  data: { columns: { name: string; type: string }[]; record: Record<string, unknown> };
}

test('changes show each type, and domains and arrays of it, as REST does', async ({ harness }) => {
  const tenant = await harness.project('typed');
  await harness.sql(
    tenant,
    `${TYPES} create table typed (id int primary key, ${COLUMNS});
     alter publication supabase_realtime add table typed`,
  );
  const received = await open(harness, tenant, { table: 'typed' });
  for (let row = 0; row < ROWS; row++) {
    const places = VALUES.map(([type], at) => `$${at + 2}::text::${type}`).join(', ');
    const values = VALUES.map(([, ...texts]) => texts[row] ?? null);
    await harness.sql(tenant, `insert into typed values ($1, ${places})`, [row, ...values]);
  }
  await until(() => received().length === ROWS, 'every row');
  const rows = await harness.sql(tenant, 'select to_jsonb(typed) as row from typed order by id');
  for (const [at, { row }] of rows.entries()) {
    const { record } = (received()[at] as Payload).data;
    for (const [column, value] of Object.entries(row as object))
      assert.equal(record[column], value, `${VALUES[Number(column.slice(1))]?.[0]} ${column}`);
    assert.equal(Object.keys(record), ['id', ...VALUES.map((_, each) => `c${each}`)]);
  }
  const [first] = received();
  assert.equal(
    first?.data.columns.slice(1, 4).map(({ type }) => type),
    ['score', 'high_score', '_score'],
  );
});

test('filters on domains and enums select the same rows as in Postgres', async ({ harness }) => {
  const tenant = await harness.project('filtered');
  await harness.sql(
    tenant,
    `${TYPES} create table filtered (id int primary key, s high_score, f flag, m feeling, e email, at moment);
     alter database "${tenant.owner.database}" set timezone = 'Asia/Kolkata';
     alter publication supabase_realtime add table filtered`,
  );
  const filters = [
    's=eq.10',
    's=lt.9',
    's=in.(7,8)',
    'f=is.true',
    'f=eq.false',
    'm=neq.glad',
    'e=eq.b',
    'at=gt.2026-01-02',
    'at=eq.2026-01-01 05:30:00+05:30',
  ];
  const received = await open(harness, tenant, ...filters.map((filter) => ({ table: 'filtered', filter })), {
    table: 'filtered',
  });
  await harness.sql(
    tenant,
    `insert into filtered values
       (1, 7, true, 'glad', 'a', '2026-01-01Z'), (2, 10, false, '{sad,a}', 'b', '2026-02-01')`,
  );
  await until(() => received().length === 2, 'both rows');
  assert.equal(
    received().map(({ ids }) => ids.length),
    [5, 6],
  );
});

test('changes contain stored generated columns, and filters on them match', async ({ harness }) => {
  const tenant = await harness.project('generated');
  await harness.sql(
    tenant,
    `create table goods (id int primary key, price int, total int generated always as (price * 2) stored,
       shown int generated always as (price * 3) virtual);
     alter publication supabase_realtime add table goods`,
  );
  const received = await open(harness, tenant, { table: 'goods', filter: 'total=eq.14' });
  await harness.sql(tenant, 'insert into goods values (1, 6), (2, 7)');
  await until(() => received().length === 1, 'the row');
  assert.equal(received()[0]?.data.record, { id: 2, price: 7, total: 14 });
});

test('a project of an earlier release gets stored generated columns when realtime opens it', async ({ harness }) => {
  const tenant = await harness.project('earlier');
  await harness.sql(
    tenant,
    `drop publication supabase_realtime; create publication supabase_realtime;
     create table goods (id int primary key, total int generated always as (id * 2) stored);
     alter publication supabase_realtime add table goods`,
  );
  const received = await open(harness, tenant, { table: 'goods' });
  await harness.sql(tenant, 'insert into goods values (1)');
  await until(() => received().length === 1, 'the row');
  assert.equal(received()[0]?.data.record, { id: 1, total: 2 });
});

test('an older project whose owner cannot change the publication has realtime without generated columns', async ({
  harness,
}) => {
  const tenant = await harness.project('locked');
  await harness.sql(
    tenant,
    `drop publication supabase_realtime; create publication supabase_realtime;
     create table goods (id int primary key, total int generated always as (id * 2) stored);
     alter publication supabase_realtime add table goods`,
  );
  harness.change({ ...tenant, owner: { ...tenant.owner, password: 'wrong' } });
  const received = await open(harness, tenant, { table: 'goods' });
  await harness.sql(tenant, 'insert into goods values (1)');
  await until(() => received().length === 1, 'the row');
  assert.equal(received()[0]?.data.record, { id: 1 });
});

test('names of types and columns that are hostile are quoted in SQL and JSON', async ({ harness }) => {
  const tenant = await harness.project('hostile');
  const hostile = `x"; drop table goods; --'\\$1`;
  const name = `"${hostile.replaceAll('"', '""')}"`;
  await harness.sql(
    tenant,
    `create domain ${name} as int; create table goods (id int primary key, ${name} ${name});
     alter publication supabase_realtime add table goods`,
  );
  const received = await open(harness, tenant, { table: 'goods', filter: `${hostile}=gte.5` });
  await harness.sql(tenant, 'insert into goods values (1, 4), (2, 5)');
  await until(() => received().length === 1, 'the row');
  assert.equal(received()[0]?.data.record, { id: 2, [hostile]: 5 });
  assert.equal(await harness.sql(tenant, 'select count(*)::int as n from goods'), [{ n: 2 }]);
});

test('a table whose column has a long chain of domains is readable', async ({ harness }) => {
  const tenant = await harness.project('chained');
  const chain = Array.from({ length: 60 }, (_, at) => `create domain d${at} as ${at === 0 ? 'int' : `d${at - 1}`};`);
  await harness.sql(
    tenant,
    `${chain.join('')} create table chained (id int primary key, short d20, long d59);
     alter publication supabase_realtime add table chained`,
  );
  const received = await open(harness, tenant, { table: 'chained' });
  await harness.sql(tenant, 'insert into chained values (1, 2, 3)');
  await until(() => received().length === 1, 'the row');
  assert.equal(received()[0]?.data.record, { id: 1, short: 2, long: '3' });
});

test.run();
