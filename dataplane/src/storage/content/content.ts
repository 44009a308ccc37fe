/**
 * Where the bytes of objects are. An object's content lies under its project's ref and its version, an id of ours: no
 * name that a user chose is part of any path. Content is there whole or not at all, and never changes.
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
  /** The last one that is read. */
  end: number;
}

export interface StoredVersion {
  version: string;
  /** Milliseconds since the epoch. */
  modified: number;
}

export interface ContentStore {
  /**
   * Whether it writes without asking another machine: what is small may come before it is known whether it is allowed.
   */
  readonly isLocal: boolean;
  /**
   * Takes all of `source`, `length` bytes where that is known, and says how many there were; throws tooLarge() past
   * `limit`. Its pieces are used up.
   */
  write(place: ContentPlace, source: Readable, limit: number, length?: number): Promise<number>;
  /** Makes a local file, which nobody else uses any more, the content of `place`. */
  adopt(place: ContentPlace, file: string): Promise<void>;
  has(place: ContentPlace): Promise<boolean>;
  /** Throws noSuchKey() where there is none. */
  read(place: ContentPlace, range?: ByteRange): Promise<Readable>;
  /** Throws noSuchKey() where there is none. */
  copy(from: ContentPlace, to: ContentPlace): Promise<void>;
  /** Ignores versions that do not exist, and versions that this service did not generate. */
  remove(ref: string, versions: readonly string[]): Promise<void>;
  /** Lists only ids of our own form. */
  versions(ref: string): AsyncIterable<StoredVersion>;
  /** Projects that anything is kept of. What is named or laid out otherwise isn't storage's. */
  refs(): AsyncIterable<string>;
  /** Removes all that storage keeps of it, and nothing that somebody else put there. */
  removeProject(ref: string): Promise<void>;
}

/** The form of a ref, as the Project's definition has it. */
export const REF = new RegExp(`^(?=.{1,${REF_MAX_LENGTH}}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$`);

/** The form that randomUUID() writes, for regular expressions. */
export const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
export const VERSION = new RegExp(`^${UUID}$`);

/** True for an id that this service can have generated. The value may come from a tenant's database. */
export const isVersion = (value: unknown): value is string => typeof value === 'string' && VERSION.test(value);

/** Returns the ref unchanged. Throws noSuchKey() if it has not the form of a project's ref. */
export function checkedRef(ref: string): string {
  if (typeof ref !== 'string' || !REF.test(ref)) throw noSuchKey();
  return ref;
}

/** Returns the place unchanged. Throws noSuchKey() if its ref or its version has not our own form. */
export function checkedPlace(place: ContentPlace): ContentPlace {
  checkedRef(place.ref);
  if (!isVersion(place.version)) throw noSuchKey();
  return place;
}
