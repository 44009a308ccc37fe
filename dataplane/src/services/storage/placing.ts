/**
 * Creates an object: checks the caller's permission, writes the content under a new version, then stores the object's
 * row by one statement as the caller. The object is visible once that statement commits; then the former version is
 * removed.
 */
import { randomUUID } from 'node:crypto';
import { parseJson } from '@slipway/program';
import type { Caller } from '../../projects/tenant.js';
import { ConnectionError, DatabaseError, type Statement } from '../../sql/pool.js';
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

/** Description of an upload, as far as known before its content arrives. */
export interface Placement extends ObjectPlace {
  caller: Caller;
  /** User who becomes the object's owner. */
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
 * Checks the caller's permission by a write that is undone, and reads the bucket's rules. Both take one round trip: the
 * error that undoes the write has the rules as its message.
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
      ...as(
        context,
        caller,
        operation,
        insertion(placement, { id: randomUUID(), version: '', metadata: JSON.stringify(foreseen), userMetadata: null }),
      ),
      undo,
    ]);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === ALLOWED) return rulesOf(error);
    if (error instanceof DatabaseError && (error.code === '23503' || error.code === '42501')) {
      throw (await isBucket(context, bucket)) ? storageError(error) : noSuchBucket();
    }
    throw error;
  }
  throw accessDenied();
}

/** An owner's trigger may raise the same code: a message that is not the rules fails like any error of a trigger. */
function rulesOf(error: DatabaseError): BucketRules {
  let rules: Partial<Record<keyof BucketRules, unknown>> | null;
  try {
    rules = parseJson(error.message) as typeof rules;
  } catch {
    throw error;
  }
  const { file_size_limit: size, allowed_mime_types: types } = rules ?? {};
  const isSize = size === null || (typeof size === 'number' && size >= 0);
  const isTypes = types === null || (Array.isArray(types) && types.every((type) => typeof type === 'string'));
  if (!isSize || !isTypes) throw error;
  return rules as BucketRules;
}

/** Returns the bucket's rules, even if the caller can't see the bucket. */
export async function bucketRules(context: StorageContext, bucket: string, operation: string): Promise<BucketRules> {
  const statement = rows('rules', 'select file_size_limit, allowed_mime_types from storage.buckets where id = $1', [
    bucket,
  ]);
  const [rules] = await lastRows<BucketRules>(context, await send(context, as(context, SERVICE, operation, statement)));
  if (!rules) throw noSuchBucket();
  return rules;
}

async function isBucket(context: StorageContext, bucket: string): Promise<boolean> {
  const statement = rows('is-bucket', 'select id from storage.buckets where id = $1', [bucket]);
  return (await lastRows(context, await send(context, as(context, SERVICE, 'bucket.get', statement)))).length > 0;
}

/** Returns the maximum bytes of the content. Throws if its size or type is already known to be forbidden. */
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
 * Returns the entries of a bucket's rules that match a type: the type itself and its group. In a list of several types,
 * browsers use the last one that they know.
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
 * Returns a statement that fails, by a division by zero, if the object violates the bucket's rules, which undoes the
 * whole batch.
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

/** Complete content, and the description of its object. */
interface ArrivedContent {
  content: ContentPlace;
  size: number;
  description: Description;
}

/**
 * Creates an object without an earlier check of the permission; used for rejected uploads, to get the database's error.
 */
export async function placeUnchecked(
  context: StorageContext,
  placement: Placement,
  arrived: ArrivedContent,
): Promise<string> {
  const { size, description } = arrived;
  const { mimetype } = description;
  try {
    return await place(context, placement, arrived, fits(placement.bucket, size, mimetype));
  } catch (error) {
    if (!(error instanceof DatabaseError && error.code === DIVISION_BY_ZERO)) throw error;
    const rules = await mayPlace(context, placement, { mimetype, contentLength: size, size });
    allowedBytes(context, rules, mimetype, size);
    throw error;
  }
}

/**
 * Names complete content. If the database rejects it, the content is removed. If the response was lost, the content may
 * be named: it stays, and is collected if not.
 */
export async function place(...named: Parameters<typeof nameContent>): Promise<string> {
  try {
    return await nameContent(...named);
  } catch (error) {
    const [context, , { content }] = named;
    const { ref, version } = content;
    const mayBeNamed = error instanceof ConnectionError && error.sent;
    if (!mayBeNamed) await context.content.remove(ref, [version]);
    context.usage.removed(ref);
    throw error;
  }
}

/** Like `place`, but keeps the content of a rejected upload. May be repeated if its response was lost. */
export async function nameContent(
  context: StorageContext,
  placement: Placement,
  { content, size, description }: ArrivedContent,
  condition?: Statement,
): Promise<string> {
  const { bucket, name, caller, operation, upsert } = placement;
  const metadata = JSON.stringify(metadataOf(content.version, size, description));
  const before = rows(
    'version-before',
    'select id, version from storage.objects where bucket_id = $1 and name = $2 for update',
    [bucket, name],
  );
  const named = insertion(placement, {
    id: content.version,
    version: content.version,
    metadata,
    userMetadata: description.userMetadata,
  });
  const asService = [...(upsert ? [before] : []), ...(condition ? [condition] : [])];
  const results = await send(context, [
    ...(asService.length > 0 ? as(context, SERVICE, operation, ...asService) : []),
    ...as(context, caller, operation, named),
  ]);
  let old: { id: string; version: unknown } | undefined;
  if (upsert) [old] = await lastRows<NonNullable<typeof old>>(context, results.slice(0, 2));
  // Runs in the background; content that is not removed is collected later.
  if (old?.version && old.version !== content.version) {
    void removeContentOf(context, [old]).catch(() => undefined);
  }
  return old?.id ?? content.version;
}

/** True if an object has this content: the intended one, or one to which it was moved. */
export async function isNamed(
  context: StorageContext,
  { bucket, name }: ObjectPlace,
  version: string,
): Promise<boolean> {
  const statement = rows(
    'is-named',
    `select id from storage.objects
     where version = $3::text and (id = $3::uuid or (bucket_id = $1 and name = $2))`,
    [bucket, name, version],
  );
  return (await lastRows(context, await send(context, as(context, SERVICE, 'object.get', statement)))).length > 0;
}

/** JSON as text. */
interface NewRow {
  id: string;
  version: string;
  metadata: string;
  userMetadata: string | null;
}

const insertion = ({ bucket, name, owner, upsert }: Placement, { id, version, metadata, userMetadata }: NewRow) =>
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

/** `eTag` is the version, which never changes its content: as strong as a digest, at no cost. */
const metadataOf = (version: string, size: number, { mimetype, cacheControl }: Description) => ({
  eTag: `"${version.replaceAll('-', '')}"`,
  size,
  mimetype,
  cacheControl,
  lastModified: new Date().toISOString(),
  contentLength: size,
  httpStatusCode: 200,
});
