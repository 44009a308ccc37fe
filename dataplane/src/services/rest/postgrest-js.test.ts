import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness } from './testing.js';

const SCHEMA = `
  create schema other;
  grant usage on schema other to anon, authenticated, service_role;
  create table other.things (id int primary key);
  grant all on other.things to service_role;
  create type mood as enum ('calm', 'wild');
  create table countries (id int primary key, name text);
  create table cities (id int primary key, name text not null, country_id int references countries, people int,
    tags text[], during int4range,
    info jsonb, words tsvector, feels mood);
  insert into countries values (1, 'A-land'), (2, 'B-land');
  insert into cities values
    (1, 'Aton', 1, 100, '{sea,old}', '[1,5)', '{"k":{"n":1}}', to_tsvector('english', 'a fat cat'), 'calm'),
    (2, 'Bton', 1, 200, '{old}', '[5,9)', '{"k":{"n":2}}', to_tsvector('english', 'a thin dog'), 'wild'),
    (3, 'Cton', 2, 300, '{}', '[20,30)', null, null, null);
  create function bigger_than(n int) returns setof cities language sql stable
    as 'select * from cities where people > n order by id';
  create function echo(x int) returns int language sql immutable as 'select x';
  create function wipe() returns setof countries language sql volatile
    as 'delete from countries where id > 100 returning *';
  alter role authenticator set pgrst.db_plan_enabled = true;
  alter role authenticator set pgrst.db_tx_end = 'commit-allow-override';
  alter role authenticator set pgrst.db_aggregates_enabled = true;
`;

const test = suite('postgrest-js');
let rest: RestHarness;
// biome-ignore lint/suspicious/noExplicitAny: a schema without generated types is any
let db: any;
const called = new Set<string>();
const offered = new Map<string, object>();

/** Records which methods of a class are used, and which exist. */
function watch(prototype: object): void {
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (typeof value !== 'function' || name === 'constructor' || name.startsWith('_')) continue;
    offered.set(name, prototype);
    Object.defineProperty(prototype, name, {
      configurable: true,
      value(this: unknown, ...args: unknown[]) {
        called.add(name);
        return value.apply(this, args);
      },
    });
  }
}

test.before(async () => {
  rest = await startRestHarness(SCHEMA, { schemas: ['public', 'other'] });
  const client = rest.client('service_role');
  db = client;
  const query = client.from('cities');
  let prototype = Object.getPrototypeOf(query.select());
  watch(Object.getPrototypeOf(query));
  watch(Object.getPrototypeOf(client.schema('public')));
  for (; prototype !== Object.prototype; prototype = Object.getPrototypeOf(prototype)) watch(prototype);
});
test.after(() => rest.close());

const ids = async (query: PromiseLike<{ data: { id: number }[] | null; error: unknown }>) => {
  const { data, error } = await query;
  assert.is(error, null, JSON.stringify(error));
  return data?.map(({ id }) => id);
};

// biome-ignore lint/suspicious/noExplicitAny: see above
const FILTERS: [name: string, apply: (query: any) => any, ids: number[]][] = [
  ['eq', (q) => q.eq('name', 'Aton'), [1]],
  ['neq', (q) => q.neq('id', 1), [2, 3]],
  ['gt', (q) => q.gt('people', 100), [2, 3]],
  ['gte', (q) => q.gte('people', 200), [2, 3]],
  ['lt', (q) => q.lt('people', 200), [1]],
  ['lte', (q) => q.lte('people', 200), [1, 2]],
  ['like', (q) => q.like('name', '%ton'), [1, 2, 3]],
  ['likeAllOf', (q) => q.likeAllOf('name', ['A%', '%n']), [1]],
  ['likeAnyOf', (q) => q.likeAnyOf('name', ['A%', 'C%']), [1, 3]],
  ['ilike', (q) => q.ilike('name', 'a%'), [1]],
  ['ilikeAllOf', (q) => q.ilikeAllOf('name', ['a%', '%N']), [1]],
  ['ilikeAnyOf', (q) => q.ilikeAnyOf('name', ['a%', 'c%']), [1, 3]],
  ['regexMatch', (q) => q.regexMatch('name', '^[AB]'), [1, 2]],
  ['regexIMatch', (q) => q.regexIMatch('name', '^a'), [1]],
  ['is', (q) => q.is('info', null), [3]],
  ['isDistinct', (q) => q.isDistinct('feels', 'calm'), [2, 3]],
  ['in', (q) => q.in('name', ['Aton', 'a,b', 'q"']), [1]],
  ['notIn', (q) => q.notIn('id', [1, 2]), [3]],
  ['contains an array', (q) => q.contains('tags', ['sea']), [1]],
  ['contains JSON', (q) => q.contains('info', { k: { n: 2 } }), [2]],
  ['contains a range', (q) => q.contains('during', '[2,3)'), [1]],
  ['containedBy', (q) => q.containedBy('tags', ['old', 'new']), [2, 3]],
  ['overlaps', (q) => q.overlaps('tags', ['sea', 'new']), [1]],
  ['rangeGt', (q) => q.rangeGt('during', '[9,10)'), [3]],
  ['rangeGte', (q) => q.rangeGte('during', '[5,10)'), [2, 3]],
  ['rangeLt', (q) => q.rangeLt('during', '[9,10)'), [1, 2]],
  ['rangeLte', (q) => q.rangeLte('during', '[3,9)'), [1, 2]],
  ['rangeAdjacent', (q) => q.rangeAdjacent('during', '[5,9)'), [1]],
  ['textSearch', (q) => q.textSearch('words', `'fat' & 'cat'`, { config: 'english' }), [1]],
  ['textSearch plain', (q) => q.textSearch('words', 'thin dog', { type: 'plain', config: 'english' }), [2]],
  ['textSearch phrase', (q) => q.textSearch('words', 'fat cat', { type: 'phrase', config: 'english' }), [1]],
  [
    'textSearch websearch',
    (q) => q.textSearch('words', 'cat or dog', { type: 'websearch', config: 'english' }),
    [1, 2],
  ],
  ['match', (q) => q.match({ country_id: 1, people: 200 }), [2]],
  ['not', (q) => q.not('info', 'is', null), [1, 2]],
  ['or', (q) => q.or('id.eq.1,and(people.gt.200,name.like.C*)'), [1, 3]],
  ['filter', (q) => q.filter('info->k->>n', 'in', '("1","7")'), [1]],
  ['limit', (q) => q.limit(2), [1, 2]],
  ['range', (q) => q.range(1, 2), [2, 3]],
];
for (const [name, apply, expected] of FILTERS)
  test(`${name} selects the expected rows`, async () => {
    const selected = await ids(apply(db.from('cities').select('id').order('id')));
    assert.equal([...(selected ?? [])].sort(), expected);
  });

test('embedded resources are joined, filtered, ordered and limited', async () => {
  const { data } = await db
    .from('countries')
    .select('name, cities!inner(name)')
    .gt('cities.people', 50)
    .or('name.eq.Aton,name.eq.Bton', { referencedTable: 'cities' })
    .order('name', { referencedTable: 'cities', ascending: false })
    .limit(1, { referencedTable: 'cities' });
  assert.equal(data, [{ name: 'A-land', cities: [{ name: 'Bton' }] }]);
  const { data: ordered } = await db
    .from('cities')
    .select('id, countries(name)')
    .order('countries(name)', { ascending: false })
    .order('id');
  assert.equal(
    ordered.map(({ id }: { id: number }) => id),
    [3, 1, 2],
  );
  assert.equal((await db.from('countries').select('cities(count)').eq('id', 1)).data, [{ cities: [{ count: 2 }] }]);
});

test('rows are inserted, upserted, updated and deleted, and returned on request', async () => {
  const table = () => db.from('countries');
  assert.is((await table().insert({ id: 10, name: 'X' })).status, 201);
  assert.equal(
    (
      await table()
        .insert([{ id: 11, name: 'Y' }, { id: 12 }], { defaultToNull: false, count: 'exact' })
        .select()
    ).count,
    2,
  );
  assert.equal((await table().upsert({ id: 10, name: 'Z' }).select().single()).data, { id: 10, name: 'Z' });
  assert.equal(
    (await table().upsert({ id: 10, name: 'W' }, { onConflict: 'id', ignoreDuplicates: true }).select()).data,
    [],
  );
  assert.equal((await table().update({ name: 'V' }, { count: 'exact' }).eq('id', 10).select('name')).data, [
    { name: 'V' },
  ]);
  const deleted = await table().delete({ count: 'exact' }).gte('id', 10);
  assert.equal([deleted.status, deleted.count], [204, 3]);
});

test('single, maybeSingle, csv, explain, stripNulls, geojson and counts have their own formats', async () => {
  const city = () => db.from('cities').select('id,info');
  assert.equal((await city().eq('id', 1).single()).data, { id: 1, info: { k: { n: 1 } } });
  const none = await city().eq('id', 99).single();
  assert.equal([none.status, none.error.code], [406, 'PGRST116']);
  assert.equal(
    [(await city().eq('id', 99).maybeSingle()).data, (await city().eq('id', 1).maybeSingle()).data.id],
    [null, 1],
  );
  assert.is((await city().maybeSingle()).error.code, 'PGRST116');
  assert.is((await db.from('countries').select('id,name').order('id').csv()).data, 'id,name\n1,A-land\n2,B-land');
  assert.match((await city().explain()).data, /Seq Scan|Index/);
  assert.ok((await city().explain({ format: 'json', analyze: true, verbose: true })).data[0].Plan);
  assert.equal((await city().eq('id', 3).stripNulls()).data, [{ id: 3 }]);
  assert.is((await city().geojson()).status, 406);
  const counted = await db.from('cities').select('*', { count: 'exact', head: true });
  assert.equal([counted.count, counted.data], [3, null]);
});

test('functions are called with arguments, by GET, by HEAD, and with filters', async () => {
  assert.is((await db.rpc('echo', { x: 7 })).data, 7);
  assert.is((await db.rpc('echo', { x: 8 }, { get: true })).data, 8);
  assert.equal(await ids(db.rpc('bigger_than', { n: 100 }).select('id').lt('people', 300)), [2]);
  assert.is((await db.rpc('bigger_than', { n: 0 }, { head: true, count: 'exact' })).count, 3);
  assert.is((await db.rpc('nope')).error.code, 'PGRST202');
});

test('rollback, maxAffected and schema work', async () => {
  const tried = await db.from('countries').insert({ id: 50, name: 'gone' }).select().rollback();
  assert.equal([tried.data, (await db.from('countries').select().eq('id', 50)).data], [[{ id: 50, name: 'gone' }], []]);
  const bounded = await db.from('cities').update({ people: 0 }).gt('id', 0).maxAffected(2);
  assert.equal([bounded.status, bounded.error.code], [400, 'PGRST124']);
  assert.is((await db.rpc('wipe').maxAffected(1)).status, 200);
  assert.equal((await db.schema('other').from('things').insert({ id: 1 }).select()).data, [{ id: 1 }]);
});

test('errors are returned, or thrown on request; headers and signals are forwarded', async () => {
  const { error } = await db.from('citees').select();
  assert.equal(
    { ...error },
    {
      code: 'PGRST205',
      details: null,
      hint: "Perhaps you meant the table 'public.cities'",
      message: "Could not find the table 'public.citees' in the schema cache",
    },
  );
  try {
    await db.from('cities').select('nope').throwOnError();
    assert.unreachable();
  } catch (thrown) {
    assert.is((thrown as { toJSON(): { code: string } }).toJSON().code, '42703');
  }
  const minimal = await db.from('cities').select('id').setHeader('Range', '0-0').retry(false).returns().overrideTypes();
  assert.is(minimal.data.length, 1);
  const aborted = await db.from('cities').select().abortSignal(AbortSignal.abort());
  assert.ok(aborted.error);
});

test('every method of the client was used above', () => {
  const unused = [...offered.keys()].filter((name) => !called.has(name));
  assert.equal(unused, []);
});

test.run();
