/**
 * Makes the pack of an installation in the cache folder, unless it is there. Every pack is a folder with the release id
 * as its name. It appears by a rename, complete. The two that were used last stay.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, writeArchive } from './archive.js';
import { closureOf, type LockedPackages } from './closure.js';
import { entriesOf } from './entries.js';
import type { Pack } from './pack.js';

const ARCHIVE = 'pack.tar.gz';
const RECORD = 'pack.json';
const PARTIAL = /^\.partial-(\d+)$/;
/** The release in use, and the former one, for an operator that is rolled back. */
const KEPT = 2;

export async function makePack(root: string, cache: string): Promise<Pack> {
  const { packages } = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: LockedPackages;
  };
  const entries = entriesOf(root, closureOf(packages));
  const { id, manifest } = await describe(entries);
  const folder = path.join(cache, id);
  await mkdir(cache, { recursive: true, mode: 0o700 });
  if (!existsSync(folder)) {
    const partial = path.join(cache, `.partial-${process.pid}`);
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial);
    const sha256 = await writeArchive(path.join(partial, ARCHIVE), entries, manifest);
    const { size } = await stat(path.join(partial, ARCHIVE));
    const manifestSha256 = createHash('sha256').update(manifest).digest('hex');
    const record = { id, sha256, bytes: size, manifestSha256 };
    await writeFile(path.join(partial, RECORD), JSON.stringify(record), { flush: true });
    await rename(partial, folder).catch((error) => {
      // Another operator made the same one.
      if (!existsSync(folder)) throw error;
    });
  }
  const now = new Date();
  await utimes(folder, now, now);
  await deleteOthers(cache);
  const record = JSON.parse(await readFile(path.join(folder, RECORD), 'utf8')) as Omit<Pack, 'file'>;
  return { ...record, file: path.join(folder, ARCHIVE) };
}

/** Deletes old packs, and the remains of processes that were killed. */
async function deleteOthers(cache: string): Promise<void> {
  const names = await readdir(cache);
  const packs = await Promise.all(
    names
      .filter((name) => /^[0-9a-f]+$/.test(name))
      .map(async (name) => ({ name, usedAt: (await stat(path.join(cache, name))).mtimeMs })),
  );
  const old = packs.sort((a, b) => b.usedAt - a.usedAt).slice(KEPT);
  const partial = names.filter((name) => {
    const [, pid] = PARTIAL.exec(name) ?? [];
    return pid !== undefined && (Number(pid) === process.pid || !isAlive(Number(pid)));
  });
  for (const name of [...old.map((pack) => pack.name), ...partial]) {
    await rm(path.join(cache, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
