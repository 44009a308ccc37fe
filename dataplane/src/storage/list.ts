/** Listings as the caller: a level below a prefix, and the newer one that goes on from a cursor. */
import { type Row, rows } from './database.js';
import { invalidRequest } from './errors.js';
import { jsonBody, optionalText, wholeNumber } from './json-body.js';
import { answer, ask, type StorageContext, withTimes } from './storage-context.js';

const MOST = 1000;

export async function list(context: StorageContext, bucket: string): Promise<void> {
  const body = await jsonBody(context.request.incoming);
  const asked = optionalText(body.prefix, 'prefix');
  const prefix = asked === '' || asked.endsWith('/') ? asked : `${asked}/`;
  const { column, order } = (body.sortBy ?? {}) as { column?: unknown; order?: unknown };
  const found = await ask(
    context,
    'object.list',
    rows('list', 'select * from storage.search($1, $2, $3::int, $4::int, $5::int, $6, $7, $8)', [
      prefix,
      bucket,
      String(wholeNumber(body.limit, 'limit', 1, MOST * 10, 100)),
      String(prefix.split('/').length),
      String(wholeNumber(body.offset, 'offset', 0, 2 ** 31 - 1, 0)),
      optionalText(body.search, 'search'),
      optionalText(column, 'sortBy.column', 'name'),
      optionalText(order, 'sortBy.order', 'asc'),
    ]),
  );
  answer(context, found.map(withTimes));
}

interface Entry extends Row {
  key: string;
  sorted: string;
  folder: boolean;
}

const SORTED = ['name', 'created_at', 'updated_at'] as const;

export async function listFrom(context: StorageContext, bucket: string): Promise<void> {
  const body = await jsonBody(context.request.incoming);
  const limit = wholeNumber(body.limit, 'limit', 1, MOST, MOST);
  const sort = (body.sortBy ?? {}) as { column?: unknown; order?: unknown };
  const column = SORTED.find((known) => known === (sort.column ?? 'name'));
  if (!column) throw invalidRequest(`sortBy.column must be one of ${SORTED.join(', ')}`);
  const order = sort.order === 'desc' ? 'desc' : 'asc';
  const [sorted, key] = cursorOf(optionalText(body.cursor, 'cursor'));
  const byLevel = body.with_delimiter === true;
  const found = await ask<Entry>(
    context,
    'object.list_v2',
    rows(`list-from-${column}-${order}`, statementFor(column, order), [
      optionalText(body.prefix, 'prefix'),
      bucket,
      byLevel,
      sorted ?? null,
      key ?? null,
      String(limit + 1),
    ]),
  );
  const page = found.slice(0, limit);
  const last = page.at(-1);
  answer(context, {
    hasNext: found.length > limit,
    folders: page.filter(({ folder }) => folder).map(({ key: name }) => ({ name, key: lastPart(name) })),
    objects: page
      .filter(({ folder }) => !folder)
      .map(({ folder: _, sorted: __, key, ...entry }) => withTimes({ key: byLevel ? lastPart(key) : key, ...entry })),
    ...(found.length > limit && last
      ? { nextCursor: Buffer.from(JSON.stringify([last.sorted, last.key])).toString('base64url') }
      : {}),
  });
}

/** Upstream's `key` where a level is listed: the name within its folder, without a slash. */
const lastPart = (name: string) => name.replace(/\/$/, '').split('/').at(-1);

/** Folders are what the names below a prefix share up to their next slash; names sort by their bytes. */
function statementFor(column: (typeof SORTED)[number], order: 'asc' | 'desc'): string {
  const sorted = column === 'name' ? 'key' : `to_char(min(${column}) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  const after = order === 'asc' ? '>' : '<';
  return `
    select * from (
      select key, key as name, folder, ${sorted} collate "C" as sorted,
        case when not folder then min(id::text) end as id,
        min(updated_at) as updated_at, min(created_at) as created_at, min(last_accessed_at) as last_accessed_at,
        case when not folder then min(metadata::text)::jsonb end as metadata
      from (
        select o.*, folder, case when folder then left(o.name, length($1) + position('/' in rest)) else o.name end
          collate "C" as key
        from storage.objects o,
          lateral (select substr(o.name, length($1) + 1) as rest) r,
          lateral (select $3::boolean and position('/' in rest) > 0 as folder) f
        where o.bucket_id = $2 and o.name like storage.escape_like($1) || '%'
      ) entries
      group by key, folder
    ) listed
    where $4::text is null or (sorted, key) ${after} ($4 collate "C", $5 collate "C")
    order by sorted ${order}, key ${order}
    limit $6::bigint`;
}

function cursorOf(text: string): [string, string] | [] {
  if (text === '') return [];
  try {
    const [sorted, key] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[];
    if (typeof sorted === 'string' && typeof key === 'string') return [sorted, key];
  } catch {
    // Said below.
  }
  throw invalidRequest('cursor is none that a listing gave');
}
