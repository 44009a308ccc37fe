/**
 * Stores of objects' bytes. Content is stored under its project's ref and its version, a generated id: no name that a
 * user chose is part of a path. Content is complete or absent, and never changes.
 *
 * A project's owner can write any text into `storage.objects.version`. So every store checks the form of both parts of
 * a place before it builds a path or a key: `checkedPlace` for one place, `isVersion` for lists.
 */
import type { Readable } from 'node:stream';
import { REF_MAX_LENGTH } from '@slipway/crds';
import { noSuchKey } from '../errors.js';

export interface ContentPlace {
  ref: string;
  version: string;
}

export interface ByteRange {
  start: number;
  /** Last byte to read. */
  end: number;
}

export interface StoredVersion {
  version: string;
  /** Milliseconds since the epoch. */
  modified: number;
  bytes: number;
}

/** Called with the bytes so far of content without a length, before they are written; it may throw. */
export type Grow = (size: number) => void;

export interface ContentBounds {
  /** Maximum bytes of the content. */
  limit: number;
  /** Length of the content in bytes. Undefined: unknown. */
  length?: number | undefined;
  grow?: Grow;
}

export interface ContentStore {
  /** True if it writes without a network: small content may then arrive before the permission is checked. */
  readonly isLocal: boolean;
  /**
   * Writes all of `source`, and returns its length. Throws tooLarge() beyond the limit. The memory of its chunks is
   * reused.
   */
  write(place: ContentPlace, source: Readable, bounds: ContentBounds): Promise<number>;
  /** Makes a local file, which no other code uses, the content of `place`. */
  adopt(place: ContentPlace, file: string): Promise<void>;
  has(place: ContentPlace): Promise<boolean>;
  /** Copies content, and returns its length. Throws noSuchKey() if there is none. */
  size(place: ContentPlace): Promise<number>;
  /** Throws noSuchKey() if there is none. */
  read(place: ContentPlace, range?: ByteRange): Promise<Readable>;
  /** Throws noSuchKey() if there is none. */
  copy(from: ContentPlace, to: ContentPlace): Promise<void>;
  /**
   * Removes content. Ignores versions that do not exist, or that another program generated. Returns the removed bytes;
   * undefined if the store does not report them.
   */
  remove(ref: string, versions: readonly string[]): Promise<number | undefined>;
  /** Lists the versions of a project. Ids that are not in storage's format are left out. */
  versions(ref: string): AsyncIterable<StoredVersion>;
  /** Lists projects with content or leftovers. Other names and layouts are not storage's. */
  refs(): AsyncIterable<string>;
  /** Removes all files of storage in the project, and no files of other programs. */
  removeProject(ref: string): Promise<void>;
}

/** Format of a ref, from the Project's schema. */
export const REF = new RegExp(`^(?=.{1,${REF_MAX_LENGTH}}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$`);

/** Format of randomUUID(), for regular expressions. */
export const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
export const VERSION = new RegExp(`^${UUID}$`);

/** True for an id that this service can have generated. The value may come from a tenant's database. */
export const isVersion = (value: unknown): value is string => typeof value === 'string' && VERSION.test(value);

/** Returns the ref unchanged. Throws noSuchKey() if it is not in the format of a ref. */
export function checkedRef(ref: string): string {
  if (typeof ref !== 'string' || !REF.test(ref)) throw noSuchKey();
  return ref;
}

/** Returns the place unchanged. Throws noSuchKey() if its ref or its version is not in our format. */
export function checkedPlace(place: ContentPlace): ContentPlace {
  checkedRef(place.ref);
  if (!isVersion(place.version)) throw noSuchKey();
  return place;
}
