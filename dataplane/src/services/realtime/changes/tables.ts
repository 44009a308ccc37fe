/**
 * Reads the description of a published table from Postgres' catalog: columns, keys, readers, and row-level security.
 */
import { API_ROLES, type ApiRole } from '@slipway/installation';
import type { Pool } from '../../../sql/pool.js';

/** The form of a type's values: domains are resolved to their base type, and arrays to their elements. */
export interface Shape {
  /** Name of the base type if Postgres brings it; `enum` for an enum; otherwise ''. */
  baseType: string;
  /** Character between elements, for each level of arrays of a type: ',' for `int[]`. */
  delimiters: string;
}

export interface Column {
  name: string;
  /** Type name in a change's `columns`, such as `int8`, `_text`, or the name of a domain. */
  typeName: string;
  shape: Shape;
  /** Type name in SQL, with its schema. */
  sqlType: string;
  isPrimaryKey: boolean;
  readers: ReadonlySet<ApiRole>;
}

export interface Table {
  schema: string;
  name: string;
  isRlsEnabled: boolean;
  columns: ReadonlyMap<string, Column>;
  primaryKey: readonly Column[];
}

/** Maximum domains and arrays around a base type. Others are sent as text. */
const MOST_STEPS = 32;

const TABLE = `
select n.nspname, c.relname, c.relrowsecurity::text, a.attname, t.typname, format('%I.%I', tn.nspname, t.typname),
  s.base, s.delimiters, coalesce(a.attnum = any(i.indkey), false)::text,
  ${API_ROLES.map((role) => `pg_catalog.has_column_privilege('${role}', c.oid, a.attnum, 'select')::text`).join(', ')}
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_catalog.pg_type t on t.oid = a.atttypid
join pg_catalog.pg_namespace tn on tn.oid = t.typnamespace
cross join lateral (
  with recursive step (depth, type, delimiter) as (
    select 0, a.atttypid, ''
    union all
    select step.depth + 1, case o.typtype when 'd' then o.typbasetype else o.typelem end,
      case o.typtype when 'd' then '' else e.typdelim::text end
    from step join pg_catalog.pg_type o on o.oid = step.type left join pg_catalog.pg_type e on e.oid = o.typelem
    where step.depth < ${MOST_STEPS}
      and (o.typtype = 'd' or o.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc)
  )
  select string_agg(delimiter, '' order by depth) as delimiters,
    (select case when b.typtype = 'e' then 'enum' when b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace
      then b.typname else '' end
    from pg_catalog.pg_type b where b.oid = (array_agg(type order by depth desc))[1]) as base
  from step
) s
left join pg_catalog.pg_index i on i.indrelid = c.oid and i.indisprimary
where c.oid = $1::oid order by a.attnum`;

const PUBLISHED = `
select c.oid::text from pg_catalog.pg_publication_tables p
join pg_catalog.pg_namespace n on n.nspname = p.schemaname
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
where p.pubname = 'supabase_realtime' and ($1 = '*' or p.schemaname = $1) and ($2 = '*' or p.tablename = $2)
limit 2`;
/** Maximum number of cached tables. A project may have more, so older entries are evicted and read again. */
const MOST_KNOWN = 10_000;

export class Tables {
  readonly #known = new Map<number, Table | undefined>();

  constructor(private readonly pool: Pool) {}

  /** Returns undefined if the table was dropped. */
  async get(oid: number): Promise<Table | undefined> {
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    if (!this.#known.has(oid)) this.#known.set(oid, await this.#load(oid));
    return this.#known.get(oid);
  }

  /** Returns published tables of the name, `*` being any: none, the only one, or two of several. */
  async published(schema: string, table: string): Promise<Table[]> {
    const statement = { name: 'realtime-published', text: PUBLISHED, values: [schema, table] };
    const [answer] = await this.pool.batch([statement], { repeatable: true });
    const oids = (answer?.rows ?? []).map((row) => Number(row[0]));
    const tables = await Promise.all(oids.map((oid) => this.get(oid)));
    return tables.filter((table) => table !== undefined);
  }

  forget(): void {
    this.#known.clear();
  }

  async #load(oid: number): Promise<Table | undefined> {
    const statement = { name: 'realtime-table', text: TABLE, values: [oid] };
    const [answer] = await this.pool.batch([statement], { repeatable: true });
    const rows = (answer?.rows ?? []).map((row) => row.map(String));
    const first = rows[0];
    if (first === undefined) return undefined;
    const columns = rows.map(
      ([, , , name, typeName, sqlType, baseType, delimiters, isKey, ...mayRead]): Column => ({
        name: name as string,
        typeName: typeName as string,
        sqlType: sqlType as string,
        shape: { baseType: baseType as string, delimiters: delimiters as string },
        isPrimaryKey: isKey === 'true',
        readers: new Set(API_ROLES.filter((_, at) => mayRead[at] === 'true')),
      }),
    );
    return {
      schema: first[0] as string,
      name: first[1] as string,
      isRlsEnabled: first[2] === 'true',
      columns: new Map(columns.map((column) => [column.name, column])),
      primaryKey: columns.filter(({ isPrimaryKey }) => isPrimaryKey),
    };
  }
}
