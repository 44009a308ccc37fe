/**
 * Puts an object in its place: asks first whether the caller may, then takes the content under a version of its own,
 * then names it by one statement as the caller. Until that statement commits nobody sees it; after, the version before
 * is removed.
 */
import { randomUUID } from 'node:crypto';
import { ConnectionError, DatabaseError, type Statement } from '../sql/pool.js';
import type { Caller } from '../tenant.js';
import { MIME_TYPE, uuidOrNull } from './buckets.js';
import type { ContentPlace } from './content/content.js';
import { lastRows, rows, SERVICE, statement, subjectOf } from './database.js';
import { accessDenied, invalidMimeType, noSuchBucket, storageError, tooLarge } from './errors.js';
import type { ObjectPlace } from './names.js';
import { removeContentOf } from './row-content.js';
import { as, type StorageContext, send } from './storage-context.js';

export interface BucketRules {
  file_size_limit: number | null;
  allowed_mime_types: string[] | null;
}

/** The description of an upload, as far as it is known before its content arrives. */
export interface Placement extends ObjectPlace {
  caller: Caller;
  /** The object's future owner. */
  owner: string | undefined;
  upsert: boolean;
  operation: string;
}

export interface Description {
  mimetype: string;
  cacheControl: string;
  userMetadata: string | null;
}

export const ownPlacement = (
  context: StorageContext,
  place: ObjectPlace,
  operation: string,
  upsert: boolean,
): Placement => {
  const { caller } = context.request;
  return { ...place, caller, owner: subjectOf(caller), upsert, operation };
};

const ALLOWED = 'PT200';
const INSERT = `insert into storage.objects (id, bucket_id, name, owner, owner_id, version, metadata, user_metadata)
  values ($1, $2, $3, $4::uuid, $5, $6, $7::jsonb, $8::jsonb)`;
const UPSERT = `${INSERT} on conflict (bucket_id, name) do update set
  owner = excluded.owner, owner_id = excluded.owner_id, version = excluded.version, metadata = excluded.metadata,
  user_metadata = excluded.user_metadata, updated_at = now()`;

/**
 * Whether the caller may put an object there, tried and undone, and what its bucket allows: both in one round trip, as
 * what undoes it carries the answer.
 */
export async function mayPlace(
  context: StorageContext,
  placement: Placement,
  foreseen: object = {},
): Promise<BucketRules> {
  const { bucket, caller, operation } = placement;
  const rules = statement(
    'bucket-rules',
    `select set_config('storage.bucket_rules', coalesce((
       select json_build_object('file_size_limit', file_size_limit, 'allowed_mime_types', allowed_mime_types)::text
       from storage.buckets where id = $1), ''), true)`,
    [bucket],
  );
  const undo = statement(
    'undo',
    `do $$ begin raise sqlstate '${ALLOWED}' using message = current_setting('storage.bucket_rules'); end $$`,
  );
  try {
    await send(context, [
      ...as(context, SERVICE, operation, rules),
      ...as(context, caller, operation, insertion(placement, randomUUID(), '', JSON.stringify(foreseen), null)),
      undo,
    ]);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === ALLOWED) return JSON.parse(error.message) as BucketRules;
    if (error instanceof DatabaseError && (error.code === '23503' || error.code === '42501')) {
      throw (await isBucket(context, bucket)) ? storageError(error) : noSuchBucket();
    }
    throw error;
  }
  throw accessDenied();
}

/** Returns the bucket's rules, whether or not the caller may see the bucket. */
export async function bucketRules(context: StorageContext, bucket: string, operation: string): Promise<BucketRules> {
  const asked = rows('rules', 'select file_size_limit, allowed_mime_types from storage.buckets where id = $1', [
    bucket,
  ]);
  const [rules] = lastRows<BucketRules>(await send(context, as(context, SERVICE, operation, asked)));
  if (!rules) throw noSuchBucket();
  return rules;
}

async function isBucket(context: StorageContext, bucket: string): Promise<boolean> {
  const asked = rows('is-bucket', 'select id from storage.buckets where id = $1', [bucket]);
  return lastRows(await send(context, as(context, SERVICE, 'bucket.get', asked))).length > 0;
}

/** How many bytes its content may have. Throws where that or its type is known not to be allowed. */
export function allowedBytes(
  { limits }: StorageContext,
  rules: BucketRules,
  mimetype: string | undefined,
  length: number | undefined,
): number {
  const most = Math.min(limits.fileBytes, rules.file_size_limit ?? Infinity);
  if (length !== undefined && length > most) throw tooLarge();
  if (mimetype !== undefined) checkType(rules, mimetype);
  return most;
}

export function checkType({ allowed_mime_types: allowed }: BucketRules, mimetype: string): void {
  if (!allowed || allowed.length === 0) return;
  const patterns = ['*/*', ...patternsOf(mimetype)];
  if (!allowed.some((type) => patterns.includes(type.toLowerCase()))) throw invalidMimeType(mimetype);
}

/**
 * Returns the names that a bucket's rules may give a type: the type itself and its group. Of several types in a list,
 * browsers take the last that they know.
 */
function patternsOf(mimetype: string): [essence: string, group: string] | [] {
  const essence = (mimetype.split(';', 1)[0] as string).trim().toLowerCase();
  if (mimetype.includes(',') || !MIME_TYPE.test(essence)) return [];
  return [essence, `${essence.split('/', 1)[0]}/*`];
}

export const newContent = ({ request: { tenant } }: StorageContext): ContentPlace => ({
  ref: tenant.ref,
  version: randomUUID(),
});

/**
 * Returns a statement that fails, by a division by zero, if the object does not fit the bucket's rules. That undoes
 * everything sent with it.
 */
function fits(bucket: string, size: number, mimetype: string): Statement {
  const [essence = null, group = null] = patternsOf(mimetype);
  return statement(
    'fits',
    `select 1 / (select count(*) from storage.buckets where id = $1
       and (file_size_limit is null or file_size_limit >= $2)
       and (coalesce(cardinality(allowed_mime_types), 0) = 0
         or exists (select from unnest(allowed_mime_types) as type where lower(type) in ('*/*', $3, $4))))`,
    [bucket, String(size), essence, group],
  );
}
const DIVISION_BY_ZERO = '22012';

/** Like `place`, without `mayPlace` before: used for uploads that are rejected, to say why in the same words. */
export async function placeUnasked(
  context: StorageContext,
  placement: Placement,
  content: ContentPlace,
  size: number,
  description: Description,
): Promise<string> {
  const { mimetype } = description;
  try {
    return await place(context, placement, content, size, description, fits(placement.bucket, size, mimetype));
  } catch (error) {
    if (!(error instanceof DatabaseError && error.code === DIVISION_BY_ZERO)) throw error;
    const rules = await mayPlace(context, placement, { mimetype, contentLength: size, size });
    allowedBytes(context, rules, mimetype, size);
    throw error;
  }
}

/**
 * Names content that is whole. Where the database refuses, the content goes; where its answer was lost, it may have
 * been named, and what was not is collected.
 */
export async function place(...named: Parameters<typeof nameContent>): Promise<string> {
  try {
    return await nameContent(...named);
  } catch (error) {
    const [context, , { ref, version }] = named;
    const mayBeNamed = error instanceof ConnectionError && error.sent;
    if (!mayBeNamed) await context.content.remove(ref, [version]);
    throw error;
  }
}

/** Like `place`, but keeps the content of a rejected upload. It may be repeated if its answer was lost. */
export async function nameContent(
  context: StorageContext,
  placement: Placement,
  content: ContentPlace,
  size: number,
  description: Description,
  condition?: Statement,
): Promise<string> {
  const { bucket, name, caller, operation, upsert } = placement;
  const metadata = JSON.stringify(metadataOf(content.version, size, description));
  const before = rows(
    'version-before',
    'select id, version from storage.objects where bucket_id = $1 and name = $2 for update',
    [bucket, name],
  );
  const named = insertion(placement, content.version, content.version, metadata, description.userMetadata);
  const asService = [...(upsert ? [before] : []), ...(condition ? [condition] : [])];
  const results = await send(context, [
    ...(asService.length > 0 ? as(context, SERVICE, operation, ...asService) : []),
    ...as(context, caller, operation, named),
  ]);
  let old: { id: string; version: unknown } | undefined;
  if (upsert) [old] = JSON.parse(String(results[1]?.rows[0]?.[0] ?? '[]')) as [typeof old];
  // Nobody waits for it, and what fails to go is collected.
  if (old?.version && old.version !== content.version) {
    void removeContentOf(context, [old]).catch(() => undefined);
  }
  return old?.id ?? content.version;
}

/** Whether an object has this content: the one it was to be, or one that it made, wherever that was moved. */
export async function isNamed(
  context: StorageContext,
  { bucket, name }: ObjectPlace,
  version: string,
): Promise<boolean> {
  const asked = rows(
    'is-named',
    `select id from storage.objects
     where version = $3::text and (id = $3::uuid or (bucket_id = $1 and name = $2))`,
    [bucket, name, version],
  );
  return lastRows(await send(context, as(context, SERVICE, 'object.get', asked))).length > 0;
}

const insertion = (
  { bucket, name, owner, upsert }: Placement,
  id: string,
  version: string,
  metadata: string,
  userMetadata: string | null,
) =>
  statement(upsert ? 'upsert' : 'insert', upsert ? UPSERT : INSERT, [
    id,
    bucket,
    name,
    uuidOrNull(owner),
    owner ?? null,
    version,
    metadata,
    userMetadata,
  ]);

/** `eTag` is of the version, which never changes its content: as strong as a digest, and costs none. */
const metadataOf = (version: string, size: number, { mimetype, cacheControl }: Description) => ({
  eTag: `"${version.replaceAll('-', '')}"`,
  size,
  mimetype,
  cacheControl,
  lastModified: new Date().toISOString(),
  contentLength: size,
  httpStatusCode: 200,
});
