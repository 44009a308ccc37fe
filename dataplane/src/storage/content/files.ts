/**
 * Content as files: `<folder>/<ref>/content/<2 of the version>/<version>`, written under `<ref>/tmp` and renamed when
 * it is whole.
 */
import { once } from 'node:events';
import { constants, createReadStream, createWriteStream } from 'node:fs';
import { copyFile, link, lstat, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { noSuchKey } from '../errors.js';
import { FINISHED, PARTIALS } from '../partial-uploads.js';
import {
  type ByteRange,
  type ContentPlace,
  type ContentStore,
  checkedPlace,
  checkedRef,
  isVersion,
  REF,
  type StoredVersion,
  UUID,
} from './content.js';
import { pump } from './pump.js';

const READ_AHEAD = 256 * 1024;
const WRITE_AHEAD = 1024 * 1024;
/** Content is a regular file. A symbolic link in its place is not followed. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW;

/** In a project's folder, since when the project has been gone. */
export const GONE_MARK = 'gone';
const TOP = ['content', 'tmp', PARTIALS, FINISHED, GONE_MARK];
const FILE = new RegExp(
  `^(content/[0-9a-f]{2}/${UUID}|tmp/${UUID}|(${PARTIALS}|${FINISHED})/${UUID}[^/]*|${GONE_MARK})$`,
);
const FOLDER = new RegExp(`^(content(/[0-9a-f]{2})?|tmp|${PARTIALS}|${FINISHED})?$`);

export class FileStore implements ContentStore {
  readonly isLocal = true;
  /** Folders that are there, so that each upload doesn't ask again. */
  readonly #made = new Set<string>();

  constructor(readonly folder: string) {}

  async write(place: ContentPlace, source: Readable, limit: number): Promise<number> {
    source.once('error', () => undefined);
    const temporary = await this.temporary(place);
    try {
      const size = await spool(source, temporary, limit);
      await this.adopt(place, temporary);
      return size;
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async adopt(place: ContentPlace, file: string): Promise<void> {
    const target = this.#fileOf(place);
    await this.#madeFolder(path.dirname(target));
    await rename(file, target);
  }

  async has(place: ContentPlace): Promise<boolean> {
    return isThere(this.#fileOf(place));
  }

  async read(place: ContentPlace, range?: ByteRange): Promise<Readable> {
    const handle = await open(this.#fileOf(place), READ_FLAGS).catch(asNoSuchKey);
    try {
      return createReadStream('', { fd: handle, highWaterMark: READ_AHEAD, ...range });
    } catch (error) {
      // An impossible range must not leak the open file.
      await handle.close();
      throw error;
    }
  }

  async copy(from: ContentPlace, to: ContentPlace): Promise<void> {
    const [source, target] = [this.#fileOf(from), this.#fileOf(to)];
    await this.#madeFolder(path.dirname(target));
    // Content never changes, so two versions may be one file.
    await link(source, target).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || !(await isThere(source))) throw noSuchKey();
      const temporary = await this.temporary(to);
      await copyFile(source, temporary);
      await rename(temporary, target);
    });
  }

  async remove(ref: string, versions: readonly string[]): Promise<void> {
    for (const version of versions.filter(isVersion)) await rm(this.#fileOf({ ref, version }), { force: true });
  }

  async *versions(ref: string): AsyncIterable<StoredVersion> {
    const folder = this.#folderOf(ref);
    for (const root of [path.join(folder, 'content'), path.join(folder, 'tmp')]) {
      const files = await readdir(root, { recursive: true, withFileTypes: true }).catch(asEmpty);
      for (const file of files) {
        if (!file.isFile() || !isVersion(file.name)) continue;
        yield { version: file.name, modified: await changed(path.join(file.parentPath, file.name)) };
      }
    }
  }

  async *refs(): AsyncIterable<string> {
    for (const entry of await readdir(this.folder, { withFileTypes: true }).catch(asEmpty)) {
      if (!entry.isDirectory() || !REF.test(entry.name)) continue;
      const names = await readdir(path.join(this.folder, entry.name)).catch(asEmpty);
      if (names.length > 0 && names.every((name) => TOP.includes(name))) yield entry.name;
    }
  }

  async removeProject(ref: string): Promise<void> {
    this.#made.clear();
    const folder = this.#folderOf(ref);
    const names = await readdir(folder, { recursive: true }).catch(asEmpty);
    for (const name of names) if (FILE.test(name)) await rm(path.join(folder, name), { force: true });
    const deepestFirst = ['', ...names]
      .filter((name) => FOLDER.test(name))
      .sort()
      .reverse();
    // What holds anything else stays.
    for (const name of deepestFirst) await rmdir(path.join(folder, name)).catch(() => undefined);
  }

  /** Where content may be written until it is whole. */
  async temporary(place: ContentPlace): Promise<string> {
    const { ref, version } = checkedPlace(place);
    return path.join(await this.#madeFolder(path.join(this.folder, ref, 'tmp')), version);
  }

  #fileOf(place: ContentPlace): string {
    const { ref, version } = checkedPlace(place);
    return path.join(this.folder, ref, 'content', version.slice(0, 2), version);
  }

  #folderOf(ref: string): string {
    return path.join(this.folder, checkedRef(ref));
  }

  async #madeFolder(folder: string): Promise<string> {
    if (!this.#made.has(folder)) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      this.#made.add(folder);
    }
    return folder;
  }
}

/** Writes all of `source` to `file` and says how much it was. A source that breaks off is an error. */
export async function spool(source: Readable, file: string, limit: number): Promise<number> {
  const target = createWriteStream(file, { flags: 'w', mode: 0o600, highWaterMark: WRITE_AHEAD });
  // Once it is there, whoever gives up removes it for good.
  await once(target, 'open');
  return pump(source, target, limit);
}

/** A copy, and a file that became content, keep the time at which their bytes were written. */
async function changed(file: string): Promise<number> {
  const { mtimeMs, ctimeMs } = await stat(file).catch(() => ({ mtimeMs: Infinity, ctimeMs: Infinity }));
  return Math.max(mtimeMs, ctimeMs);
}

/** True for a regular file. Symbolic links are not followed. */
export async function isThere(file: string): Promise<boolean> {
  try {
    return (await lstat(file)).isFile();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

function asNoSuchKey(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' || error.code === 'ELOOP' ? noSuchKey() : error;
}

function asEmpty(error: NodeJS.ErrnoException): [] {
  if (error.code === 'ENOENT') return [];
  throw error;
}
