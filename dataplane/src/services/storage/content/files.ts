/**
 * Content as files: `<folder>/<ref>/content/<2 of the version>/<version>`, written under `<ref>/tmp` and renamed once
 * complete.
 */
import { once } from 'node:events';
import { constants, createReadStream, createWriteStream } from 'node:fs';
import { copyFile, link, lstat, mkdir, open, opendir, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { noSuchKey } from '../errors.js';
import { FINISHED, PARTIALS } from '../partial-uploads.js';
import {
  type ByteRange,
  type ContentBounds,
  type ContentPlace,
  type ContentStore,
  checkedPlace,
  checkedRef,
  type Grow,
  isVersion,
  REF,
  type StoredVersion,
  UUID,
} from './content.js';
import { pump } from './pump.js';

const READ_AHEAD = 256 * 1024;
const WRITE_AHEAD = 1024 * 1024;
/** Flags for opening a file: the call opens only regular files, and follows no symbolic link. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW;

/** Name of a file in a deleted project's folder. Its modification time is the time of the deletion. */
export const GONE_MARK = 'gone';
const TOP = ['content', 'tmp', PARTIALS, FINISHED, GONE_MARK];
const FILE = new RegExp(
  `^(content/[0-9a-f]{2}/${UUID}|tmp/${UUID}|(${PARTIALS}|${FINISHED})/${UUID}[^/]*|${GONE_MARK})$`,
);
const FOLDER = new RegExp(`^(content(/[0-9a-f]{2})?|tmp|${PARTIALS}|${FINISHED})?$`);

export class FileStore implements ContentStore {
  readonly isLocal = true;
  /** Existing folders, so that each upload needs no system call for them. */
  readonly #made = new Set<string>();

  constructor(readonly folder: string) {}

  async write(place: ContentPlace, source: Readable, { limit, grow }: ContentBounds): Promise<number> {
    source.once('error', () => undefined);
    const temporary = await this.temporary(place);
    try {
      const size = await spool(source, temporary, limit, grow);
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

  async size(place: ContentPlace): Promise<number> {
    const stats = await lstat(this.#fileOf(place)).catch(asNoSuchKey);
    if (!stats.isFile()) throw noSuchKey();
    return stats.size;
  }

  async read(place: ContentPlace, range?: ByteRange): Promise<Readable> {
    const handle = await open(this.#fileOf(place), READ_FLAGS).catch(asNoSuchKey);
    try {
      return createReadStream('', { fd: handle, highWaterMark: READ_AHEAD, ...range });
    } catch (error) {
      // Checked before opening, so that an impossible range can't leak the file.
      await handle.close();
      throw error;
    }
  }

  async copy(from: ContentPlace, to: ContentPlace): Promise<void> {
    const [source, target] = [this.#fileOf(from), this.#fileOf(to)];
    await this.#madeFolder(path.dirname(target));
    // Content never changes, so two versions may be links to one file.
    await link(source, target).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || !(await isThere(source))) throw noSuchKey();
      const temporary = await this.temporary(to);
      await copyFile(source, temporary);
      await rename(temporary, target);
    });
  }

  async remove(ref: string, versions: readonly string[]): Promise<number> {
    let bytes = 0;
    for (const version of versions.filter(isVersion)) {
      const file = this.#fileOf({ ref, version });
      const size = await lstat(file).catch(() => ({ size: 0 }));
      await rm(file, { force: true });
      bytes += size.size;
    }
    return bytes;
  }

  async *versions(ref: string): AsyncIterable<StoredVersion> {
    for await (const file of filesBelow(this.#folderOf(ref), ['content', 'tmp'])) {
      const version = path.basename(file);
      if (isVersion(version)) yield { version, ...(await changed(file)) };
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
    for await (const file of filesBelow(folder, TOP)) {
      if (FILE.test(path.relative(folder, file))) await rm(file, { force: true });
    }
    await rm(path.join(folder, GONE_MARK), { force: true });
    const leaves = (await readdir(path.join(folder, 'content')).catch(asEmpty)).map((name) => `content/${name}`);
    // Folders with other files stay.
    for (const name of [...leaves, ...TOP, '']) {
      if (FOLDER.test(name)) await rmdir(path.join(folder, name)).catch(() => undefined);
    }
  }

  /** Folder for incomplete content. */
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

/** Writes all of `source` to `file`, and returns its length. Fails if the source fails. */
export async function spool(source: Readable, file: string, limit: number, grow?: Grow): Promise<number> {
  const target = createWriteStream(file, { flags: 'w', mode: 0o600, highWaterMark: WRITE_AHEAD });
  // Once the file exists, a caller that fails removes it for good.
  await once(target, 'open');
  return pump(source, target, limit, grow);
}

/** Sets the present time: a copy, or a file that became content, has the time of its bytes. */
async function changed(file: string): Promise<{ modified: number; bytes: number }> {
  const missing = { mtimeMs: Infinity, ctimeMs: Infinity, size: 0 };
  const { mtimeMs, ctimeMs, size } = await stat(file).catch(() => missing);
  return { modified: Math.max(mtimeMs, ctimeMs), bytes: size };
}

/** Lists files in these folders of `root` and one level below, in pages, because there may be millions. */
async function* filesBelow(root: string, folders: readonly string[]): AsyncIterable<string> {
  for (const folder of folders) yield* filesIn(path.join(root, folder), 1);
}

async function* filesIn(folder: string, levels: number): AsyncIterable<string> {
  const entries = await opendir(folder).catch(asEmpty);
  for await (const entry of entries) {
    const file = path.join(folder, entry.name);
    if (entry.isFile()) yield file;
    else if (entry.isDirectory() && levels > 0) yield* filesIn(file, levels - 1);
  }
}

/** True for a regular file, but not for a symbolic link. */
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
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return [];
  throw error;
}
