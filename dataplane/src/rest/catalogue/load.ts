/**
 * Reads the settings and the catalogue of the exposed schemas, as the project's own login: `pg_catalog` is open to all.
 * Every name in it is qualified, and nothing outside `pg_catalog` is called.
 */
import { REST_SETTINGS, type RestSetting } from '@slipway/crds';
import type { Pool, Statement } from '../../sql/pool.js';
import { arrayLiteral } from '../statement/writer.js';
import { Catalogue, type CatalogueRows } from './catalogue.js';
import { type RestSettings, restSettings, type SettingsSource } from './settings.js';

/** Limits on what is read of a database. A project beyond them gets no REST API, and its requests are told why. */
export interface CatalogueLimits {
  /** Tables and views of the exposed schemas. */
  relations: number;
  /** Functions of the exposed schemas. */
  functions: number;
  /** All of it, as JSON. */
  bytes: number;
}

const LIMITS: CatalogueLimits = { relations: 10_000, functions: 10_000, bytes: 16 * 1024 * 1024 };
/** Characters of one comment, default or other text of the owner. */
const MOST_TEXT = 4_000;
const text = (expression: string) => `left(${expression}, ${MOST_TEXT})`;

/** Reads settings of the login role in this database, then of the role, then of the database. */
const SETTINGS = /* sql */ `
select coalesce(json_object_agg(key, value), '{}')::text from (
  select distinct on (key) key, ${text('value')} as value
  from (
    select substr(setting, 7, strpos(setting, '=') - 7) as key, substr(setting, strpos(setting, '=') + 1) as value,
      s.setrole <> 0 as of_role, s.setdatabase <> 0 as of_database
    from pg_db_role_setting s, unnest(s.setconfig) setting
    where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and s.setrole in (0, (select oid from pg_roles where rolname = session_user))
      and setting like 'pgrst.%'
  ) all_settings
  where key = any($1::text[])
  order by key, of_role desc, of_database desc
) settings`;

/** Sequences are found by what depends on what: functions that look them up by name ask for rights on their schema. */
const RELATIONS = /* sql */ `
select c.oid::int8 as oid, n.nspname as schema, c.relname as name, ${text(`obj_description(c.oid, 'pg_class')`)} as comment,
  c.relkind in ('v', 'm') as "isView",
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 8 = 8) as insertable,
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 4 = 4) as updatable,
  (c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, true) & 16 = 16) as deletable,
  (
    select coalesce(json_agg(json_build_object(
      'name', a.attname,
      'number', a.attnum,
      'type', format_type(a.atttypid, a.atttypmod),
      'base', t.typname,
      'nullable', not (a.attnotnull or t.typtype = 'd' and t.typnotnull),
      'default', case
        when a.attgenerated <> '' then null
        when a.attidentity = 'd' then (
          select format('nextval(%L::pg_catalog.regclass)', format('%I.%I', sn.nspname, sc.relname))
          from pg_depend dep join pg_class sc on sc.oid = dep.objid join pg_namespace sn on sn.oid = sc.relnamespace
          where dep.classid = 'pg_class'::regclass and dep.refobjid = a.attrelid and dep.refobjsubid = a.attnum and dep.deptype = 'i'
          limit 1
        )
        else ${text('coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault)')}
      end,
      'generated', a.attgenerated <> '' or a.attidentity = 'a',
      'comment', ${text('col_description(a.attrelid, a.attnum)')},
      'labels', case when t.typtype = 'e' then (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid) end,
      'maxLength', case when t.typname in ('varchar', 'bpchar') and a.atttypmod > 4 then a.atttypmod - 4 end,
      'toJson', r.to_json, 'fromJson', r.from_json, 'fromText', r.from_text
    ) order by a.attnum), '[]')
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join lateral (
      select
        max(f.name) filter (where cast_.castsource = t.oid and cast_.casttarget = 'json'::regtype) as to_json,
        max(f.name) filter (where cast_.casttarget = t.oid and cast_.castsource = 'json'::regtype) as from_json,
        max(f.name) filter (where cast_.casttarget = t.oid and cast_.castsource = 'text'::regtype) as from_text
      from pg_cast cast_
      join lateral (
        select format('%I.%I', fn.nspname, p.proname) as name from pg_proc p join pg_namespace fn on fn.oid = p.pronamespace
        where p.oid = cast_.castfunc
      ) f on true
      where cast_.castcontext = 'i' and cast_.castmethod = 'f' and t.oid in (cast_.castsource, cast_.casttarget)
    ) r on t.typtype = 'd'
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  ) as columns
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition`;

const KEYS = /* sql */ `
select o.conname as constraint, o.contype as kind, o.conrelid::int8 as relation, o.conkey as columns,
  case when o.contype = 'f' then o.confrelid::int8 end as foreign, o.confkey as "foreignColumns"
from pg_constraint o
where o.contype in ('p', 'u', 'f') and o.conparentid = 0 and o.conrelid >= 16384`;

const VIEWS = /* sql */ `
select c.oid::int8 as oid, r.ev_action::text as definition
from pg_class c
join pg_rewrite r on r.ev_class = c.oid and r.rulename = '_RETURN'
where c.relkind in ('v', 'm') and c.oid >= 16384 and pg_column_size(r.ev_action) < 1000000`;

/** A domain of such a name stands for what is in it. */
const MEDIA_TYPE = '^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+$';

const FUNCTIONS = /* sql */ `
select n.nspname as schema, p.proname as name, ${text(`obj_description(p.oid, 'pg_proc')`)} as comment, p.provolatile as volatility,
  (
    select coalesce(json_agg(json_build_object(
      'name', coalesce(p.proargnames[i], ''),
      'type', format_type((coalesce(p.proallargtypes, string_to_array(p.proargtypes::text, ' ')::oid[]))[i], null),
      'required', inputs.position <= p.pronargs - p.pronargdefaults,
      'variadic', coalesce(p.proargmodes[i] = 'v', false)
    ) order by i), '[]')
    from (
      select i, row_number() over (order by i) as position
      from generate_series(1, coalesce(array_length(p.proallargtypes, 1), p.pronargs)) i
      where p.proargmodes is null or p.proargmodes[i] in ('i', 'b', 'v')
    ) inputs
  ) as parameters,
  case
    when p.prorettype = 'void'::regtype then 'void'
    when r.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false) then 'composite'
    else 'scalar'
  end as returns,
  p.proretset as "returnsSet",
  case when r.typtype = 'c' then json_build_object('schema', rn.nspname, 'name', r.typname) end as "returnsTable",
  case when d.typtype = 'd' and d.typname ~ '${MEDIA_TYPE}' then
    json_build_object('type', d.typname, 'isBytes', d.typbasetype = 'bytea'::regtype) end as media,
  (
    select (extract(epoch from substr(setting, 19)::interval) * 1000)::int8 from unnest(p.proconfig) setting
    where setting ~ '^statement_timeout=\\d{1,6} ?(ms|s|min|h)$'
  ) as "timeoutMs"
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type d on d.oid = p.prorettype
join pg_type r on r.oid = case when d.typtype = 'd' then d.typbasetype else d.oid end
join pg_namespace rn on rn.oid = r.typnamespace
where n.nspname = any($1::text[]) and p.prokind = 'f' and r.typname not in ('trigger', 'event_trigger')`;

const COMPUTED = /* sql */ `
select n.nspname as schema, p.proname as name, a.oid::int8 as table, r.oid::int8 as target,
  (not p.proretset or p.prorows = 1) as single
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_class a on a.reltype = p.proargtypes[0]
join pg_class r on r.reltype = p.prorettype
where p.pronargs = 1 and p.prokind = 'f' and p.oid >= 16384 and a.relkind in ('r', 'p', 'v', 'm', 'f')`;

const HANDLERS = /* sql */ `
select n.nspname as schema, p.proname as name, d.typname as media, d.typbasetype = 'bytea'::regtype as "isBytes", a.oid::int8 as table
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type d on d.oid = p.prorettype and d.typtype = 'd' and d.typname ~ '${MEDIA_TYPE}'
left join pg_class a on a.reltype = p.proargtypes[0]
where n.nspname = any($1::text[]) and p.prokind = 'a' and p.pronargs = 1
  and (a.oid is not null or p.proargtypes[0] = 'anyelement'::regtype)`;

const list = (name: string, query: string, order: string) =>
  `'${name}', (select coalesce(json_agg(q order by ${order}), '[]') from (${query}) q)`;

/** Counted before anything is read, and no further than the limits. */
const TOO_MANY = /* sql */ `
(select count(*) from (
  select from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition limit $2::int8 + 1
) relations) > $2::int8
or (select count(*) from (
  select from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any($1::text[]) limit $3::int8 + 1
) functions) > $3::int8`;

/** One row: null where it is more than the limits allow. */
const CATALOGUE = /* sql */ `
with catalogue as materialized (select case when ${TOO_MANY} then null else json_build_object(
  ${list('relations', RELATIONS, 'schema, name')},
  ${list('keys', KEYS, 'relation, q.constraint')},
  ${list('views', VIEWS, 'oid')},
  ${list('functions', FUNCTIONS, 'schema, name, q.parameters::text')},
  ${list('computed', COMPUTED, 'schema, name')},
  ${list('handlers', HANDLERS, 'schema, name')},
  'comments', (select coalesce(json_object_agg(nspname, ${text(`obj_description(oid, 'pg_namespace')`)}), '{}') from pg_namespace where nspname = any($1::text[]))
)::text end as text)
select case when octet_length(text) <= $4::int8 then text end from catalogue`;

const PREPARE: Statement = {
  text: `select set_config('search_path', 'pg_catalog', true), set_config('transaction_read_only', 'on', true)`,
};

async function json<T>(pool: Pool, text: string, values: string[]): Promise<T | undefined> {
  const [, result] = await pool.batch([PREPARE, { text, values }], { repeatable: true });
  const [value] = result?.rows[0] ?? [];
  return value ? (JSON.parse(String(value)) as T) : undefined;
}

async function loadSettings(pool: Pool, { schemas, given, fromDatabase }: SettingsSource): Promise<RestSettings> {
  const names = fromDatabase ? REST_SETTINGS : [];
  const set = await json<Partial<Record<RestSetting, string>>>(pool, SETTINGS, [arrayLiteral(names)]);
  return restSettings({ ...given, ...set }, schemas);
}

/** The exposed schemas hold more than is read of them. */
export class CatalogueTooLarge extends Error {
  constructor({ relations, functions, bytes }: CatalogueLimits) {
    super(
      `The exposed schemas have more than ${relations} tables and views, ${functions} functions or ${bytes} bytes of descriptions. ` +
        'Expose fewer schemas, or move objects to another schema.',
    );
  }
}

export async function loadCatalogue(pool: Pool, source: SettingsSource, limits = LIMITS): Promise<Catalogue> {
  const settings = await loadSettings(pool, source);
  const { relations, functions, bytes } = limits;
  const values = [arrayLiteral(settings.schemas), String(relations), String(functions), String(bytes)];
  const rows = await json<CatalogueRows>(pool, CATALOGUE, values);
  if (!rows) throw new CatalogueTooLarge(limits);
  return new Catalogue(rows, settings);
}
