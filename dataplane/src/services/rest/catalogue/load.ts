/**
 * Reads the settings and the catalogue of the exposed schemas with the project's own login, as `pg_catalog` is readable
 * by everyone. Every name is qualified, so that only functions of `pg_catalog` are called.
 */
import { REST_SETTINGS, type RestSetting } from '@slipway/installation';
import { type JsonBound, JsonRefusal, parseJson } from '@slipway/program';
import { inTurns, type Steps } from '../../../bounds/turns.js';
import { jsonRowsOf, ROW_SEPARATOR } from '../../../sql/json-rows.js';
import type { Pool, Statement } from '../../../sql/pool.js';
import { arrayLiteral } from '../statement/writer.js';
import { Catalogue, type CatalogueRows } from './catalogue.js';
import { type RestSettings, restSettings, type SettingsSource } from './settings.js';

/** Limits of a catalogue. A project beyond them has no REST API, and each request returns an error with the reason. */
export interface CatalogueLimits {
  /** Maximum number of tables and views of the exposed schemas. */
  relations: number;
  /** Maximum number of functions of the exposed schemas. */
  functions: number;
  /** Maximum bytes of the catalogue as JSON. */
  bytes: number;
}

const LIMITS: CatalogueLimits = { relations: 10_000, functions: 10_000, bytes: 16 * 1024 * 1024 };
/** Maximum characters of a comment, default or other text of the owner. */
const MOST_TEXT = 4_000;
const text = (expression: string) => `left(${expression}, ${MOST_TEXT})`;

/** Query for the settings of the login role in this database, then of the role, then of the database. */
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

/**
 * Query for tables and views. Their sequences are found by dependencies, because functions that look up sequences by
 * name need rights on their schema.
 */
const RELATIONS = /* sql */ `
select c.oid::int8 as oid, n.nspname as schema, c.relname as name,
  ${text(`obj_description(c.oid, 'pg_class')`)} as comment, c.relkind in ('v', 'm') as "isView",
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
          where dep.classid = 'pg_class'::regclass and dep.refobjid = a.attrelid and dep.refobjsubid = a.attnum
          and dep.deptype = 'i'
          limit 1
        )
        else ${text('coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault)')}
      end,
      'generated', a.attgenerated <> '' or a.attidentity = 'a',
      'comment', ${text('col_description(a.attrelid, a.attnum)')},
      'labels', case when t.typtype = 'e' then (
        select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid) end,
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
        select format('%I.%I', fn.nspname, p.proname) as name
        from pg_proc p join pg_namespace fn on fn.oid = p.pronamespace
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
where c.relkind in ('v', 'm') and c.oid >= 16384 and pg_column_size(r.ev_action) < 500000
  and length(r.ev_action::text) < 500000`;

/** Pattern of the name of a domain that represents a media type. */
const MEDIA_TYPE = '^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+$';

const FUNCTIONS = /* sql */ `
select n.nspname as schema, p.proname as name,
  ${text(`obj_description(p.oid, 'pg_proc')`)} as comment, p.provolatile as volatility,
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
select n.nspname as schema, p.proname as name, d.typname as media,
  d.typbasetype = 'bytea'::regtype as "isBytes", a.oid::int8 as table
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type d on d.oid = p.prorettype and d.typtype = 'd' and d.typname ~ '${MEDIA_TYPE}'
left join pg_class a on a.reltype = p.proargtypes[0]
where n.nspname = any($1::text[]) and p.prokind = 'a' and p.pronargs = 1
  and (a.oid is not null or p.proargtypes[0] = 'anyelement'::regtype)`;

const list = (name: keyof CatalogueRows, query: string, order: string) =>
  `(select string_agg('{"${name}":' || row_to_json(q)::text || '}', ${ROW_SEPARATOR} order by ${order}) ` +
  `from (${query}) q)`;

/** Query that counts objects before they are read, and only up to the limits. */
const TOO_MANY = /* sql */ `
(select count(*) from (
  select from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  limit $2::int8 + 1
) relations) > $2::int8
or (select count(*) from (
  select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = any($1::text[]) limit $3::int8 + 1
) functions) > $3::int8`;

/** Query for the catalogue: one text with a row of JSON for each object, or null if it exceeds the limits. */
const CATALOGUE = /* sql */ `
with catalogue as materialized (select case when ${TOO_MANY} then null else concat_ws(${ROW_SEPARATOR},
  ${list('relations', RELATIONS, 'schema, name')},
  ${list('keys', KEYS, 'relation, q.constraint')},
  ${list('views', VIEWS, 'oid')},
  ${list('functions', FUNCTIONS, 'schema, name, q.parameters::text')},
  ${list('computed', COMPUTED, 'schema, name')},
  ${list('handlers', HANDLERS, 'schema, name')},
  '{"comments":' || (select coalesce(json_object_agg(nspname, ${text(`obj_description(oid, 'pg_namespace')`)}), '{}')
    from pg_namespace where nspname = any($1::text[]))::text || '}'
) end as text)
select case when octet_length(text) <= $4::int8 then text end from catalogue`;

const PREPARE: Statement = {
  text: `select set_config('search_path', 'pg_catalog', true), set_config('transaction_read_only', 'on', true)`,
};

async function textOf(pool: Pool, text: string, values: string[]): Promise<Buffer | undefined> {
  const [, result] = await pool.batch([PREPARE, { text, values }], { repeatable: true });
  return result?.rows[0]?.[0] ?? undefined;
}

async function loadSettings(pool: Pool, { schemas, given, fromDatabase }: SettingsSource): Promise<RestSettings> {
  const names = fromDatabase ? REST_SETTINGS : [];
  const set = await textOf(pool, SETTINGS, [arrayLiteral(names)]);
  return restSettings({ ...given, ...(set ? (parseJson(set) as Partial<Record<RestSetting, string>>) : {}) }, schemas);
}

/** Error of exposed schemas that exceed the limits. */
export class CatalogueTooLarge extends Error {
  constructor({ relations, functions, bytes }: CatalogueLimits) {
    super(
      `The exposed schemas have more than ${relations} tables and views, ${functions} functions ` +
        `or ${bytes} bytes of descriptions. ` +
        'Expose fewer schemas, or move objects to another schema.',
    );
  }
}

/** Limits of one table: 1,600 columns, each an object of a dozen members. */
const MOST_OF_ROW: JsonBound = { bytes: 2 * 1024 * 1024, depth: 16, values: 60_000 };

/** Reads the catalogue. `ref` is the project that waits for it. */
export async function loadCatalogue(
  ref: string,
  pool: Pool,
  source: SettingsSource,
  limits = LIMITS,
): Promise<Catalogue> {
  const settings = await loadSettings(pool, source);
  const { relations, functions, bytes } = limits;
  const values = [arrayLiteral(settings.schemas), String(relations), String(functions), String(bytes)];
  const text = await textOf(pool, CATALOGUE, values);
  if (!text) throw new CatalogueTooLarge(limits);
  try {
    return await inTurns(ref, catalogueOf(text, settings));
  } catch (error) {
    throw error instanceof JsonRefusal ? new CatalogueTooLarge(limits) : error;
  }
}

export function* catalogueOf(text: Buffer, settings: RestSettings): Steps<Catalogue> {
  const rows: CatalogueRows = {
    relations: [],
    keys: [],
    views: [],
    functions: [],
    computed: [],
    handlers: [],
    comments: {},
  };
  yield* jsonRowsOf(text, (line) => {
    const [[of, row] = []] = Object.entries(parseJson(line, MOST_OF_ROW) as object);
    if (of === 'comments') rows.comments = row as CatalogueRows['comments'];
    else (rows[of as Exclude<keyof CatalogueRows, 'comments'>] as unknown[]).push(row);
  });
  return yield* Catalogue.of(rows, settings, text.length);
}
