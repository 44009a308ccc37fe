/** Names of buckets and objects: which are allowed, and how they are read from an address. */
import { invalidBucketName, invalidKey } from './errors.js';

export interface ObjectPlace {
  bucket: string;
  name: string;
}

/** Names that S3 calls safe; none has a backslash, NUL or another control character. */
const BUCKET = /^[\w!.*'() &$@=;:+,?-]{1,100}$/;
const KEY = /^[\w/!.*'() &$@=;:+,?-]{1,1024}$/;

export function checkedBucket(name: unknown): string {
  if (typeof name !== 'string' || !BUCKET.test(name) || name.trim() !== name || /^\.+$/.test(name)) {
    throw invalidBucketName();
  }
  return name;
}

/**
 * Content lies under names of our own, so none of these could lead anywhere; but clients and proxies would resolve
 * them.
 */
export function checkedName(name: unknown): string {
  if (typeof name !== 'string') throw invalidKey('');
  if (!KEY.test(name) || name.startsWith('/') || name.split('/').some((part) => part === '.' || part === '..')) {
    throw invalidKey(name);
  }
  return name;
}

/** `bucket/folder/name` as it stands in an address. */
export function placeOf(address: string): ObjectPlace {
  const text = decoded(address);
  const slash = text.indexOf('/');
  if (slash < 1) throw invalidKey(text);
  return { bucket: checkedBucket(text.slice(0, slash)), name: checkedName(text.slice(slash + 1)) };
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalidKey(text);
  }
}

export const keyOf = ({ bucket, name }: ObjectPlace) => `${bucket}/${name}`;

export const inAddress = (place: ObjectPlace) => keyOf(place).split('/').map(encodeURIComponent).join('/');
