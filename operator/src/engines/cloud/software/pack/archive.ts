/** Writes the archive of a pack. The same entries give the same bytes, whenever and by whom it is written. */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Pack as Tar, pack as tarOf } from 'tar-stream';
import type { PackEntry } from './entries.js';

/** The checksums of all files, in the format of sha256sum, at the top of the archive. */
export const MANIFEST = 'SHA256SUMS';

/** Debian's base image has gzip and no zstd. Higher levels save 4 % and take twice the time. */
const GZIP_LEVEL = 4;

export interface Described {
  /** A hash over the paths, modes, contents and link targets of all entries. */
  id: string;
  manifest: string;
}

const ID_DIGITS = 24;
const SUM_DIGITS = 64;

export async function describe(entries: readonly PackEntry[]): Promise<Described> {
  const id = createHash('sha256');
  let manifest = '';
  for (const entry of entries) {
    if (entry.kind === 'link') id.update(`link ${entry.path} ${entry.target}\n`);
    else {
      const sum = await sha256Of(entry.from);
      id.update(`${entry.mode} ${entry.path} ${sum}\n`);
      manifest += `${sum}  ${entry.path}\n`;
    }
  }
  return { id: id.digest('hex').slice(0, ID_DIGITS), manifest };
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest('hex');
}

/** Returns the checksum of the archive. Rejects if a file is not the one that `describe` read. */
export async function writeArchive(to: string, entries: readonly PackEntry[], manifest: string): Promise<string> {
  const tar = tarOf();
  const hash = createHash('sha256');
  await Promise.all([
    addAll(tar, entries, manifest).catch((error) => tar.destroy(error)),
    pipeline(tar, createGzip({ level: GZIP_LEVEL }), hashedBy(hash), createWriteStream(to, { flush: true })),
  ]);
  return hash.digest('hex');
}

const hashedBy = (hash: Hash) =>
  new Transform({
    transform: (chunk, _encoding, done) => {
      hash.update(chunk);
      done(null, chunk);
    },
  });

/** Attributes that would make the archives of two machines differ. */
const FIXED = { mtime: new Date(0), uid: 0, gid: 0 };

async function addAll(tar: Tar, entries: readonly PackEntry[], manifest: string): Promise<void> {
  tar.entry({ ...FIXED, name: MANIFEST, mode: 0o644 }, manifest);
  const sums = new Map(manifest.split('\n').map((line) => [line.slice(SUM_DIGITS + 2), line.slice(0, SUM_DIGITS)]));
  for (const entry of entries) {
    if (entry.kind === 'link') tar.entry({ ...FIXED, name: entry.path, type: 'symlink', linkname: entry.target });
    else if ((await addFile(tar, entry)) !== sums.get(entry.path)) throw new Error(`${entry.path} changed meanwhile.`);
  }
  tar.finalize();
}

/** Returns the checksum of what was written. */
async function addFile(tar: Tar, { path, from, mode }: PackEntry & { kind: 'file' }): Promise<string> {
  const hash = createHash('sha256');
  const { size } = await stat(from);
  await pipeline(createReadStream(from), hashedBy(hash), tar.entry({ ...FIXED, name: path, mode, size }));
  return hash.digest('hex');
}
