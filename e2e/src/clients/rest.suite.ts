/** Calls the whole public API of an unmodified postgrest-js at a project's URL. */
import { until } from '@slipway/testing';
import { PostgrestClient, type PostgrestFilterBuilder, type PostgrestQueryBuilder } from '@supabase/postgrest-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Inventory, Recorder } from './recorder.js';
import type { WalkedProject } from './walked-project.js';

// biome-ignore lint/suspicious/noExplicitAny: a schema without generated types is any.
type Loose = any;
type Client = PostgrestClient<Loose, Loose, Loose>;
type Query = PostgrestQueryBuilder<Loose, Loose, Loose>;
type Filter = PostgrestFilterBuilder<Loose, Loose, Loose, Loose>;

const CLIENT: Inventory<Omit<Client, 'schemaName'>> = { from: 'works', schema: 'works', rpc: 'works' };
const QUERY: Inventory<Query> = {
  select: 'works',
  insert: 'works',
  upsert: 'works',
  update: 'works',
  delete: 'works',
};
const FILTER: Inventory<Filter> = {
  eq: 'works',
  neq: 'works',
  gt: 'works',
  gte: 'works',
  lt: 'works',
  lte: 'works',
  like: 'works',
  likeAllOf: 'works',
  likeAnyOf: 'works',
  ilike: 'works',
  ilikeAllOf: 'works',
  ilikeAnyOf: 'works',
  regexMatch: 'works',
  regexIMatch: 'works',
  is: 'works',
  isDistinct: 'works',
  in: 'works',
  notIn: 'works',
  contains: 'works',
  containedBy: 'works',
  rangeGt: 'works',
  rangeGte: 'works',
  rangeLt: 'works',
  rangeLte: 'works',
  rangeAdjacent: 'works',
  overlaps: 'works',
  textSearch: 'works',
  match: 'works',
  not: 'works',
  or: 'works',
  filter: 'works',
  select: 'works',
  order: 'works',
  limit: 'works',
  range: 'works',
  abortSignal: 'works',
  single: 'works',
  maybeSingle: 'works',
  csv: 'works',
  // Upstream without PostGIS returns 406 too.
  geojson: 'refused',
  explain: 'works',
  rollback: 'works',
  returns: 'works',
  maxAffected: 'works',
  throwOnError: 'works',
  stripNulls: 'works',
  setHeader: 'works',
  retry: 'works',
  // biome-ignore lint/suspicious/noThenProperty: a builder is awaited by it.
  then: 'works',
  overrideTypes: 'works',
};

const SQL = `
  create schema other;
  grant usage on schema other to anon, authenticated, service_role;
  create table other.things (id int primary key);
  grant all on other.things to service_role;
  create type mood as enum ('calm', 'wild');
  create table cities (id int primary key, name text not null, people int, tags text[], during int4range, info jsonb,
    words tsvector, feels mood);
  insert into cities values
    (1, 'Aton', 100, '{sea,old}', '[1,5)', '{"k":{"n":1}}', to_tsvector('english', 'a fat cat'), 'calm'),
    (2, 'Bton', 200, '{old}', '[5,9)', '{"k":{"n":2}}', to_tsvector('english', 'a thin dog'), 'wild'),
    (3, 'Cton', 300, '{}', '[20,30)', null, null, null);
  create table notes (id int primary key, note text);
  create function bigger_than(n int) returns setof cities language sql stable as
    'select * from cities where people > n order by id';
  do $$ begin
    execute format('alter database %I set pgrst.db_plan_enabled = true', current_database());
    execute format('alter database %I set pgrst.db_schemas = %L', current_database(), 'public, other');
    execute format('alter database %I set pgrst.db_tx_end = %L', current_database(), 'commit-allow-override');
  end $$;
  notify pgrst, 'reload config';
  notify pgrst, 'reload schema';
`;

const FILTERS: [name: string, apply: (query: Filter) => Filter, ids: number[]][] = [
  ['eq', (q) => q.eq('name', 'Aton'), [1]],
  ['neq', (q) => q.neq('id', 1), [2, 3]],
  ['gt', (q) => q.gt('people', 100), [2, 3]],
  ['gte', (q) => q.gte('people', 200), [2, 3]],
  ['lt', (q) => q.lt('people', 200), [1]],
  ['lte', (q) => q.lte('people', 200), [1, 2]],
  ['like', (q) => q.like('name', 'A%'), [1]],
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
  ['contains', (q) => q.contains('info', { k: { n: 2 } }), [2]],
  ['containedBy', (q) => q.containedBy('tags', ['old', 'new']), [2, 3]],
  ['overlaps', (q) => q.overlaps('tags', ['sea', 'new']), [1]],
  ['rangeGt', (q) => q.rangeGt('during', '[9,10)'), [3]],
  ['rangeGte', (q) => q.rangeGte('during', '[5,10)'), [2, 3]],
  ['rangeLt', (q) => q.rangeLt('during', '[9,10)'), [1, 2]],
  ['rangeLte', (q) => q.rangeLte('during', '[3,9)'), [1, 2]],
  ['rangeAdjacent', (q) => q.rangeAdjacent('during', '[5,9)'), [1]],
  ['textSearch', (q) => q.textSearch('words', 'fat cat', { type: 'phrase', config: 'english' }), [1]],
  ['match', (q) => q.match({ name: 'Bton', people: 200 }), [2]],
  ['not', (q) => q.not('info', 'is', null), [1, 2]],
  ['or', (q) => q.or('id.eq.1,and(people.gt.200,name.like.C*)'), [1, 3]],
  ['filter', (q) => q.filter('info->k->>n', 'in', '("1","7")'), [1]],
  ['limit', (q) => q.limit(2) as Filter, [1, 2]],
  ['range', (q) => q.range(1, 2) as Filter, [2, 3]],
];

export function walkRest(test: Test, given: () => WalkedProject): void {
  const recorder = new Recorder({
    PostgrestClient: CLIENT,
    PostgrestQueryBuilder: QUERY,
    PostgrestFilterBuilder: FILTER,
  });
  const newClient = (): Client => {
    const { project, platform, headers } = given();
    const { fetch } = platform.network;
    return recorder.watch(
      new PostgrestClient(project.postgrest_url, { headers: headers(project.service_role_key), fetch }) as Client,
    );
  };
  let db: Client;

  test('postgrest-js: the owner’s tables and settings are served', async () => {
    const { person, project } = given();
    await person.query(project.id, SQL);
    db = newClient();
    await until(async () => {
      const { status } = await db.schema('other').from('things').select().limit(0);
      return status === 200;
    }, 'the schema is known');
  });

  test('postgrest-js: every filter finds the expected rows', async () => {
    for (const [name, apply, expected] of FILTERS) {
      const { data, error } = await apply(db.from('cities').select('id').order('id') as Filter);
      assert.is(error, null, `${name}: ${JSON.stringify(error)}`);
      assert.equal(
        data.map(({ id }: { id: number }) => id),
        expected,
        name,
      );
    }
  });

  test('postgrest-js: rows are inserted, upserted, updated, deleted, and rolled back', async () => {
    const table = () => db.from('notes');
    assert.is((await table().insert({ id: 1, note: 'x' })).status, 201);
    const many = await table()
      .insert([{ id: 2, note: 'y' }, { id: 3 }], { defaultToNull: false, count: 'exact' })
      .select();
    assert.is(many.count, 2);
    assert.equal((await table().upsert({ id: 1, note: 'z' }).select().single()).data, { id: 1, note: 'z' });
    assert.equal((await table().update({ note: 'w' }, { count: 'exact' }).eq('id', 1).select('note')).data, [
      { note: 'w' },
    ]);
    const bounded = await (table().delete().gte('id', 1) as Loose).maxAffected(2);
    assert.equal([bounded.status, bounded.error?.code], [400, 'PGRST124']);
    const tried = await table().insert({ id: 9 }).select('id').rollback();
    assert.equal([tried.data, (await table().select().eq('id', 9)).data], [[{ id: 9 }], []]);
    const deleted = await table().delete({ count: 'exact' }).gte('id', 1);
    assert.equal([deleted.status, deleted.count], [204, 3]);
  });

  test('postgrest-js: responses are one row, none, CSV, a plan or a count, from tables and functions', async () => {
    const city = (id: number) => db.from('cities').select('id,info').eq('id', id);
    assert.equal((await city(1).single()).data, { id: 1, info: { k: { n: 1 } } });
    assert.is((await city(99).single()).error?.code, 'PGRST116');
    assert.is((await city(99).maybeSingle()).data, null);
    assert.equal((await city(3).stripNulls()).data, [{ id: 3 }]);
    assert.is((await db.from('cities').select('id,name').eq('id', 1).csv()).data, 'id,name\n1,Aton');
    assert.match(String((await city(1).explain()).data), /Scan/);
    assert.is((await city(1).geojson()).status, 406);
    assert.is((await db.from('cities').select('*', { count: 'exact', head: true })).count, 3);
    const called = await db.rpc('bigger_than', { n: 100 }, { get: true }).select('id').lt('people', 300);
    assert.equal(called.data, [{ id: 2 }]);
  });

  test('postgrest-js: errors are returned or thrown, and headers and signals are passed on', async () => {
    const { error } = await db.from('citees').select();
    assert.equal([error?.code, error?.hint], ['PGRST205', "Perhaps you meant the table 'public.cities'"]);
    const thrown = await db
      .from('cities')
      .select('nope')
      .throwOnError()
      .then(
        () => undefined,
        (caught: { code: string }) => caught.code,
      );
    assert.is(thrown, '42703');
    const first = await (db.from('cities').select('id') as Loose)
      .setHeader('Range', '0-0')
      .retry(false)
      .returns()
      .overrideTypes();
    assert.is(first.data.length, 1);
    assert.ok((await db.from('cities').select().abortSignal(AbortSignal.abort())).error);
  });

  test('postgrest-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
