/**
 * Reads the catalogue of the exposed schemas in one query, as the project's own login: `pg_catalog` is open to all. Every
 * name in it is qualified, and nothing outside `pg_catalog` is called.
 */
import type { Pool } from '../../sql/pool.js';
import { arrayLiteral } from '../statement/writer.js';
import { Catalogue, type CatalogueRows } from './catalogue.js';

const TABLES = /* sql */ `
select c.oid, n.nspname as schema, c.relname as name, obj_description(c.oid, 'pg_class') as comment,
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 8 = 8) as insertable,
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 4 = 4) as updatable,
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 16 = 16) as deletable,
  (
    select coalesce(json_agg(json_build_object(
      'name', a.attname,
      'type', format_type(a.atttypid, a.atttypmod),
      'base', t.typname,
      'nullable', not a.attnotnull,
      'default', case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
      'generated', a.attgenerated <> '' or a.attidentity = 'a',
      'comment', col_description(a.attrelid, a.attnum)
    ) order by a.attnum), '[]')
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  ) as columns,
  coalesce(k.keys, '[]') as keys,
  coalesce(k.foreign_keys, '[]') as foreign_keys,
  coalesce(k.primary_key, '[]') as primary_key
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
  select
    json_agg(names.own) filter (where o.contype in ('p', 'u')) as keys,
    json_agg(json_build_object(
      'constraint', o.conname, 'columns', names.own, 'schema', fn.nspname, 'table', fc.relname, 'foreignColumns', names.far
    ) order by o.conname) filter (where o.contype = 'f') as foreign_keys,
    (array_agg(names.own) filter (where o.contype = 'p'))[1] as primary_key
  from pg_constraint o
  left join pg_class fc on fc.oid = o.confrelid
  left join pg_namespace fn on fn.oid = fc.relnamespace
  cross join lateral (
    select
      (select json_agg(a.attname order by i) from unnest(o.conkey) with ordinality u(num, i)
        join pg_attribute a on a.attrelid = o.conrelid and a.attnum = u.num) as own,
      (select json_agg(a.attname order by i) from unnest(o.confkey) with ordinality u(num, i)
        join pg_attribute a on a.attrelid = o.confrelid and a.attnum = u.num) as far
  ) names
  where o.conrelid = c.oid and o.contype in ('p', 'u', 'f') and o.conparentid = 0
) k on true
where n.nspname = any($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition`;

const FUNCTIONS = /* sql */ `
select n.nspname as schema, p.proname as name, obj_description(p.oid, 'pg_proc') as comment, p.provolatile as volatility,
  (
    select coalesce(json_agg(json_build_object(
      'name', coalesce(p.proargnames[i], ''),
      'type', format_type((coalesce(p.proallargtypes, string_to_array(p.proargtypes::text, ' ')::oid[]))[i], null),
      'required', inputs.position <= p.pronargs - p.pronargdefaults,
      'variadic', p.proargmodes[i] = 'v'
    ) order by i), '[]')
    from (
      select i, row_number() over (order by i) as position
      from generate_series(1, coalesce(array_length(p.proallargtypes, 1), p.pronargs)) i
      where p.proargmodes is null or p.proargmodes[i] in ('i', 'b', 'v')
    ) inputs
  ) as parameters,
  case
    when p.prorettype = 'void'::regtype then 'void'
    when r.typtype = 'c' or p.proargmodes::text[] && '{t,b,o}' and p.prorettype = 'record'::regtype then 'composite'
    else 'scalar'
  end as returns,
  p.proretset as "returnsSet",
  case when r.typtype = 'c' then json_build_object('schema', rn.nspname, 'name', r.typname) end as "returnsTable"
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type r on r.oid = p.prorettype
join pg_namespace rn on rn.oid = r.typnamespace
where n.nspname = any($1::text[]) and p.prokind = 'f' and r.typname not in ('trigger', 'event_trigger')`;

const CATALOGUE = /* sql */ `
select json_build_object(
  'tables', (select coalesce(json_agg(json_build_object(
    'schema', schema, 'name', name, 'comment', comment, 'insertable', insertable, 'updatable', updatable, 'deletable', deletable,
    'columns', columns, 'primaryKey', primary_key, 'uniques', keys, 'foreignKeys', foreign_keys
  ) order by schema, name), '[]') from (${TABLES}) t),
  'functions', (select coalesce(json_agg(f order by schema, name), '[]') from (${FUNCTIONS}) f)
)::text`;

export async function loadCatalogue(pool: Pool, schemas: readonly string[]): Promise<Catalogue> {
  const [, result] = await pool.batch(
    [
      { text: `select set_config('search_path', 'pg_catalog', true), set_config('transaction_read_only', 'on', true)` },
      { text: CATALOGUE, values: [arrayLiteral(schemas)] },
    ],
    { repeatable: true },
  );
  return new Catalogue(JSON.parse(String(result?.rows[0]?.[0])) as CatalogueRows);
}
