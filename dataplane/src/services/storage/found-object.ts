/** Finds an object: as the caller, anonymously in a public bucket, or as the signer of a URL. */
import { lastRows, rows, SERVICE } from './database.js';
import { noSuchBucket, noSuchKey, StorageError } from './errors.js';
import type { ObjectPlace } from './names.js';
import { as, type StorageContext, send } from './storage-context.js';

export interface FoundObject {
  id: string;
  /** Value of the column, which the owner can change. Only `contentOf` converts it to a path. */
  version: unknown;
  created_at: string;
  updated_at: string;
  last_accessed_at: string;
  metadata: { mimetype?: string; cacheControl?: string; eTag?: string; size?: number; lastModified?: string } | null;
  user_metadata: object | null;
}

export type Access = 'authenticated' | 'public' | 'signed';

const COLUMNS = 'id, version, created_at, updated_at, last_accessed_at, metadata, user_metadata';
const OBJECT = `select ${COLUMNS} from storage.objects where bucket_id = $1 and name = $2`;
const PUBLIC = `select b.id as bucket, o.id, o.version, o.created_at, o.updated_at, o.last_accessed_at, o.metadata,
    o.user_metadata
  from storage.buckets b left join storage.objects o on o.bucket_id = b.id and o.name = $2
  where b.id = $1 and b.public`;

export async function foundObject(
  context: StorageContext,
  { bucket, name }: ObjectPlace,
  access: Access,
  operation: string,
): Promise<FoundObject> {
  const caller = access === 'authenticated' ? context.request.caller : SERVICE;
  const statement =
    access === 'public' ? rows('public-object', PUBLIC, [bucket, name]) : rows('object', OBJECT, [bucket, name]);
  const [object] = await lastRows<FoundObject>(context, await send(context, as(context, caller, operation, statement)));
  if (access === 'public' && !object) throw noSuchBucket();
  if (!object?.id) throw noSuchKey();
  return object;
}

/** Maximum reads of the object's row by one request, because the object may be replaced repeatedly. */
const MOST_READS = 5;

/**
 * Returns the result of `use` for an object and its content. An upload deletes the content that it replaces at once. If
 * that happens before `use` has read the content, the new version is used.
 */
export async function ofObject<T>(
  context: StorageContext,
  at: ObjectPlace,
  { access, operation }: { access: Access; operation: string },
  use: (object: FoundObject) => Promise<T>,
): Promise<T> {
  let object = await foundObject(context, at, access, operation);
  for (let reads = 1; ; reads++) {
    try {
      return await use(object);
    } catch (error) {
      if (!(error instanceof StorageError && error.code === 'NoSuchKey') || reads === MOST_READS) throw error;
      const { version } = object;
      object = await foundObject(context, at, access, operation);
      if (object.version === version) throw error;
    }
  }
}

/** Size in bytes. An impossible size counts as 0, because the project's owner can write any JSON there. */
export const sizeOf = ({ metadata }: FoundObject): number => {
  const size = Number(metadata?.size ?? 0);
  return Number.isSafeInteger(size) && size >= 0 ? size : 0;
};
export const etagOf = ({ id, metadata }: FoundObject) => metadata?.eTag ?? `"${id.replaceAll('-', '')}"`;
export const modifiedOf = ({ metadata, updated_at }: FoundObject) => new Date(metadata?.lastModified ?? updated_at);
