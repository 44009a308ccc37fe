/** Lists objects as the caller: one level below a prefix, or the newer API with a cursor. */
import { parseJson } from '@slipway/program';
import { type Row, rows } from './database.js';
import { invalidRequest } from './errors.js';
import { jsonBody, optionalText, wholeNumber } from './json-body.js';
import { answerText, askForMany, jsonList, type StorageContext, withTimes } from './storage-context.js';

const MOST = 1000;

export async function list(context: StorageContext, bucket: string): Promise<void> {
  const body = await jsonBody(context.request);
  const requested = optionalText(body.prefix, 'prefix');
  const prefix = requested === '' || requested.endsWith('/') ? requested : `${requested}/`;
  const { column, order } = (body.sortBy ?? {}) as { column?: unknown; order?: unknown };
  const listed: Buffer[] = [];
  await askForMany(
    context,
    'object.list',
    rows('list', 'select * from storage.search($1, $2, $3::int, $4::int, $5::int, $6, $7, $8)', [
      prefix,
      bucket,
      String(wholeNumber(body.limit, 'limit', { least: 1, most: MOST * 10, otherwise: 100 })),
      String(prefix.split('/').length),
      String(wholeNumber(body.offset, 'offset', { least: 0, most: 2 ** 31 - 1, otherwise: 0 })),
      optionalText(body.search, 'search'),
      optionalText(column, 'sortBy.column', 'name'),
      optionalText(order, 'sortBy.order', 'asc'),
    ]),
    (row, toJson) => listed.push(toJson(withTimes(row))),
  );
  answerText(context, jsonList(listed));
}

interface Entry extends Row {
  key: string;
  sorted: string;
  folder: boolean;
}

const SORTED = ['name', 'created_at', 'updated_at'] as const;

export async function listFrom(context: StorageContext, bucket: string): Promise<void> {
  const body = await jsonBody(context.request);
  const limit = wholeNumber(body.limit, 'limit', { least: 1, most: MOST, otherwise: MOST });
  const sort = (body.sortBy ?? {}) as { column?: unknown; order?: unknown };
  const column = SORTED.find((known) => known === (sort.column ?? 'name'));
  if (!column) throw invalidRequest(`sortBy.column must be one of ${SORTED.join(', ')}`);
  const order = sort.order === 'desc' ? 'desc' : 'asc';
  const [sorted, key] = cursorOf(optionalText(body.cursor, 'cursor'));
  const byLevel = body.with_delimiter === true;
  const folders: Buffer[] = [];
  const objects: Buffer[] = [];
  let last: Entry | undefined;
  let hasNext = false;
  const add = (entry: Entry, toJson: (shown: object) => Buffer) => {
    hasNext = folders.length + objects.length === limit;
    if (hasNext) return;
    last = entry;
    const { folder, sorted: _, key, ...rest } = entry;
    if (folder) folders.push(toJson({ name: key, key: lastPart(key) }));
    else objects.push(toJson(withTimes({ key: byLevel ? lastPart(key) : key, ...rest })));
  };
  await askForMany<Entry>(
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
    add,
  );
  const cursor = hasNext && last ? Buffer.from(JSON.stringify([last.sorted, last.key])).toString('base64url') : '';
  const next = cursor === '' ? '' : `,"nextCursor":"${cursor}"`;
  const parts = [`{"hasNext":${hasNext},"folders":`, jsonList(folders), ',"objects":', jsonList(objects), `${next}}`];
  answerText(context, Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))));
}

/** Upstream's `key` in a listing of one level: the name within its folder, without a slash. */
const lastPart = (name: string) => name.replace(/\/$/, '').split('/').at(-1);

/** Groups names into folders up to the next slash after the prefix. Names sort by their bytes. */
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
    const [sorted, key] = parseJson(Buffer.from(text, 'base64url')) as unknown[];
    if (typeof sorted === 'string' && typeof key === 'string') return [sorted, key];
  } catch {
    // Handled below.
  }
  throw invalidRequest('cursor must be a value that a listing returned');
}
