/** Names of buckets and objects: allowed characters, and parsing of paths. */
import { invalidBucketName, invalidKey } from './errors.js';

export interface ObjectPlace {
  bucket: string;
  name: string;
}

/**
 * Matches names of buckets: characters that S3 considers safe. They include no backslash, NUL or other control
 * character.
 */
const BUCKET = /^[\w!.*'() &$@=;:+,?-]{1,100}$/;
const KEY = /^[\w/!.*'() &$@=;:+,?-]{1,1024}$/;

export function checkedBucket(name: unknown): string {
  if (typeof name !== 'string' || !BUCKET.test(name) || name.trim() !== name || /^\.+$/.test(name)) {
    throw invalidBucketName();
  }
  return name;
}

/**
 * Names with parts that clients and proxies would resolve. They are harmless here, because content has generated names.
 */
export function checkedName(name: unknown): string {
  if (typeof name !== 'string') throw invalidKey('');
  if (!KEY.test(name) || name.startsWith('/') || name.split('/').some((part) => part === '.' || part === '..')) {
    throw invalidKey(name);
  }
  return name;
}

/** Parses `bucket/folder/name` of a path. */
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

/**
 * Returns the path of a signed URL as upstream answers it: not encoded, because storage-js encodes it with `encodeURI`.
 * That function leaves `?` as it is, so `?` alone is encoded here.
 */
export const inSignedUrl = (place: ObjectPlace) => keyOf(place).replaceAll('?', '%3F');

/**
 * Parses the path of a signed URL, which a client may have encoded once more. That is unambiguous, because no name
 * contains `%`.
 */
export const signedPlaceOf = (address: string): ObjectPlace => placeOf(decoded(address));
