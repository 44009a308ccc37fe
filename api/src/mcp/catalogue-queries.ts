/**
 * SQL queries of the tools list_tables and get_table_schema on the project's database. `literal` quotes names as
 * literals.
 */

const literal = (text: string) => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

export const TABLES_AT_MOST = 500;

const KIND =
  "case c.relkind when 'v' then 'view' when 'm' then 'materialized view' " +
  "when 'f' then 'foreign table' else 'table' end";

const USERS_SCHEMAS = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

export const tablesQuery = (schema: string | undefined) => `
  select n.nspname as schema, c.relname as name, ${KIND} as kind, c.reltuples::float8 as row_estimate,
    c.relrowsecurity as row_level_security, pg_catalog.obj_description(c.oid, 'pg_class') as comment
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f')
    and ${schema === undefined ? USERS_SCHEMAS : `n.nspname = ${literal(schema)}`}
  order by 1, 2 limit ${TABLES_AT_MOST + 1}`;

/** Returns one row with the column `table`, which is null if no table has the name. */
export const tableQuery = (schema: string, table: string) => `
  select (select pg_catalog.json_build_object(
    'schema', n.nspname, 'name', c.relname, 'row_level_security', c.relrowsecurity,
    'columns', (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', a.attname, 'type', pg_catalog.format_type(a.atttypid, a.atttypmod), 'nullable', not a.attnotnull,
        'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid), 'comment', pg_catalog.col_description(c.oid, a.attnum)
      ) order by a.attnum), '[]')
      from pg_catalog.pg_attribute a left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
    'constraints', (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', conname, 'definition', pg_catalog.pg_get_constraintdef(oid)) order by conname), '[]')
      from pg_catalog.pg_constraint where conrelid = c.oid),
    'indexes', (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', i.indexrelid::pg_catalog.regclass::text, 'definition', pg_catalog.pg_get_indexdef(i.indexrelid))), '[]')
      from pg_catalog.pg_index i where i.indrelid = c.oid),
    'policies', (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', policyname, 'command', cmd, 'roles', roles, 'using', qual, 'check', with_check)
        order by policyname), '[]')
      from pg_catalog.pg_policies p where p.schemaname = n.nspname and p.tablename = c.relname)
  ) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname = ${literal(schema)} and c.relname = ${literal(table)}
    and c.relkind in ('r', 'p', 'v', 'm', 'f')) as "table"`;
