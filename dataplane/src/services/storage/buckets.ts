/** Buckets: created, read, changed, emptied and deleted as the caller, so that policies on `storage.buckets` decide. */
import { lastRows, rows, SERVICE, subjectOf } from './database.js';
import { bucketNotEmpty, invalidRequest, noSuchBucket } from './errors.js';
import { jsonBody, wholeNumber } from './json-body.js';
import { checkedBucket } from './names.js';
import { removeContentOf } from './row-content.js';
import {
  answer,
  answerText,
  as,
  ask,
  askForMany,
  askToDelete,
  jsonList,
  type StorageContext,
  send,
  withTimes,
} from './storage-context.js';

const COLUMNS = 'id, name, owner, owner_id, public, type, file_size_limit, allowed_mime_types, created_at, updated_at';
/** Columns that upstream's route for one bucket returns. */
const COLUMNS_OF_ONE = 'id, name, owner, public, file_size_limit, allowed_mime_types, created_at, updated_at';
export const MIME_TYPE = /^([a-z0-9!#$&^_.+-]+|\*)\/([a-z0-9!#$&^_.+*-]+)$/i;
const UNITS: Readonly<Record<string, number>> = { b: 1, kb: 1000, mb: 1_000_000, gb: 1_000_000_000 };
const EMPTIED_AT_ONCE = 1000;

export async function createBucket(context: StorageContext): Promise<void> {
  const { caller } = context.request;
  const body = await jsonBody(context.request);
  const name = checkedBucket(body.name ?? body.id);
  const id = checkedBucket(body.id ?? body.name);
  const owner = subjectOf(caller);
  await send(
    context,
    as(context, caller, 'bucket.create', {
      name: 'storage-create-bucket',
      text: `insert into storage.buckets (id, name, owner, owner_id, public, file_size_limit, allowed_mime_types)
             values ($1, $2, $3::uuid, $4, $5, $6, $7::text[])`,
      values: [
        id,
        name,
        uuidOrNull(owner),
        owner ?? null,
        body.public === true,
        sizeLimit(body.file_size_limit) ?? null,
        textArray(mimeTypes(body.allowed_mime_types)),
      ],
    }),
  );
  answer(context, { name: id });
}

export async function readBucket(context: StorageContext, id: string): Promise<void> {
  const [bucket] = await ask(
    context,
    'bucket.get',
    rows('get-bucket', `select ${COLUMNS_OF_ONE} from storage.buckets where id = $1`, [id]),
  );
  if (!bucket) throw noSuchBucket();
  answer(context, withTimes(bucket));
}

const SORTED = ['id', 'name', 'created_at', 'updated_at'];

export async function listBuckets(context: StorageContext): Promise<void> {
  const { query } = context;
  const column = query.get('sortColumn') ?? 'created_at';
  if (!SORTED.includes(column)) throw invalidRequest(`sortColumn must be one of ${SORTED.join(', ')}`);
  const order = query.get('sortOrder') === 'desc' ? 'desc' : 'asc';
  const limit = wholeNumber(query.get('limit') ?? undefined, 'limit', { least: 1, most: 10_000, otherwise: 10_000 });
  const offset = wholeNumber(query.get('offset') ?? undefined, 'offset', { least: 0, most: 2 ** 31, otherwise: 0 });
  const buckets: Buffer[] = [];
  await askForMany(
    context,
    'bucket.list',
    rows(
      `list-buckets-${column}-${order}`,
      `select ${COLUMNS} from storage.buckets where name ilike '%' || storage.escape_like($1) || '%'
       order by ${column} ${order} limit $2 offset $3`,
      [query.get('search') ?? '', String(limit), String(offset)],
    ),
    (row, toJson) => buckets.push(toJson(withTimes(row))),
  );
  answerText(context, jsonList(buckets));
}

export async function updateBucket(context: StorageContext, id: string): Promise<void> {
  const body = await jsonBody(context.request);
  const limit = sizeLimit(body.file_size_limit);
  const types = mimeTypes(body.allowed_mime_types);
  const [changed] = await ask(
    context,
    'bucket.update',
    rows(
      'update-bucket',
      `update storage.buckets set
         public = coalesce($2, public),
         file_size_limit = case when $3 then $4 else file_size_limit end,
         allowed_mime_types = case when $5 then $6::text[] else allowed_mime_types end,
         updated_at = now()
       where id = $1 returning id`,
      [
        id,
        typeof body.public === 'boolean' ? body.public : null,
        limit !== undefined,
        limit ?? null,
        types !== undefined,
        textArray(types),
      ],
    ),
  );
  if (!changed) throw noSuchBucket();
  answer(context, { message: 'Successfully updated' });
}

export async function deleteBucket(context: StorageContext, id: string): Promise<void> {
  const used = await lastRows(
    context,
    await send(context, as(context, SERVICE, 'bucket.delete', rows('bucket-used', USED, [id]))),
  );
  if (used.length > 0) throw bucketNotEmpty();
  const deleted = await askToDelete(
    context,
    'bucket.delete',
    rows('delete-bucket', 'delete from storage.buckets where id = $1 returning id', [id]),
  );
  if (deleted.length === 0) throw noSuchBucket();
  answer(context, { message: 'Successfully deleted' });
}

const USED = 'select true as used from storage.objects where bucket_id = $1 limit 1';

export async function emptyBucket(context: StorageContext, id: string): Promise<void> {
  const [bucket] = await ask(context, 'bucket.get', rows('count-objects', COUNT, [id]));
  if (!bucket) throw noSuchBucket();
  // Objects that arrive during this stay, including those that a trigger of the owner restores: otherwise this might
  // never end.
  for (let left = Number(bucket.objects); left > 0; left -= EMPTIED_AT_ONCE) {
    const next = rows('empty-bucket', EMPTY, [id, String(EMPTIED_AT_ONCE)]);
    const removed = await askToDelete(context, 'bucket.empty', next);
    await removeContentOf(context, removed);
    if (removed.length < EMPTIED_AT_ONCE) break;
  }
  answer(context, { message: 'Successfully emptied' });
}

const COUNT = `select count(o.id)::text as objects from storage.buckets b
  left join storage.objects o on o.bucket_id = b.id where b.id = $1 group by b.id`;

const EMPTY = `delete from storage.objects where id in (
    select id from storage.objects where bucket_id = $1 limit $2
  ) returning version`;

/** Undefined: absent; null: no limit. */
function sizeLimit(value: unknown): number | null | undefined {
  if (value === undefined || value === null) return value;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  const match = typeof value === 'string' ? /^(\d+(?:\.\d+)?)\s*(b|kb|mb|gb)?$/i.exec(value.trim()) : null;
  if (!match) throw invalidRequest('Invalid file size format, hint: use 20GB / 20MB / 30KB / 3B');
  return Math.floor(Number(match[1]) * (UNITS[match[2]?.toLowerCase() ?? 'b'] ?? 1));
}

function mimeTypes(value: unknown): string[] | null | undefined {
  if (value === undefined || value === null) return value;
  if (!Array.isArray(value) || value.length > 500) throw invalidRequest('allowed_mime_types must be array');
  for (const type of value) {
    if (typeof type !== 'string' || !MIME_TYPE.test(type)) throw invalidRequest(`mime type ${String(type)} is invalid`);
  }
  return value as string[];
}

/** Writes a Postgres array; no type that matches the pattern above needs an escape. */
const textArray = (types: string[] | null | undefined): string | null =>
  types ? `{${types.map((type) => `"${type}"`).join(',')}}` : null;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
export const uuidOrNull = (value: string | undefined): string | null =>
  value !== undefined && UUID.test(value) ? value : null;
