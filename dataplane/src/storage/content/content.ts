/**
 * Where the bytes of objects are. An object's content lies under its project's ref and its version, an id of ours: no name that
 * a user chose is part of any path. Content is there whole or not at all, and never changes.
 */
import type { Readable } from 'node:stream';
import { REF_MAX_LENGTH } from '@slipway/crds';

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
  /** Whether it writes without asking another machine: what is small may come before it is known whether it is allowed. */
  readonly isLocal: boolean;
  /** Takes all of `source`, `length` bytes where that is known, and says how many there were; throws tooLarge() past `limit`. Its pieces are used up. */
  write(place: ContentPlace, source: Readable, limit: number, length?: number): Promise<number>;
  /** Makes a local file, which nobody else uses any more, the content of `place`. */
  adopt(place: ContentPlace, file: string): Promise<void>;
  has(place: ContentPlace): Promise<boolean>;
  /** Throws noSuchKey() where there is none. */
  read(place: ContentPlace, range?: ByteRange): Promise<Readable>;
  /** Throws noSuchKey() where there is none. */
  copy(from: ContentPlace, to: ContentPlace): Promise<void>;
  /** What is not there is no error. */
  remove(ref: string, versions: readonly string[]): Promise<void>;
  versions(ref: string): AsyncIterable<StoredVersion>;
  /** Projects that anything is kept of. What is named or laid out otherwise isn't storage's. */
  refs(): AsyncIterable<string>;
  /** Removes all that storage keeps of it, and nothing that somebody else put there. */
  removeProject(ref: string): Promise<void>;
}

/** As the definition of a project has it. */
export const REF = new RegExp(`^(?=.{1,${REF_MAX_LENGTH}}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$`);

/** As randomUUID() writes it, for regular expressions. */
export const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
export const VERSION = new RegExp(`^${UUID}$`);
