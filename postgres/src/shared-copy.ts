/**
 * Copies programs to a folder that every account of the machine can enter. In: a folder and the path of its copy. Out:
 * the copy, complete and on disk. Several starts, servers and killed processes may make the same copy at once.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cp, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { syncToDisk } from './sync-to-disk.js';

const run = promisify(execFile);
const UNFINISHED = '.unfinished';
/**
 * Age in milliseconds from which an unfinished copy counts as abandoned by a killed process, because no copy takes this
 * long.
 */
const ABANDONED_MS = 10 * 60_000;

/** The copies in progress in this process, so that two servers that start together share one. */
const underWay = new Map<string, Promise<void>>();

/** Copies the folder `source` to `target`, readable for every account, unless the copy exists. */
export async function ensureSharedCopy(source: string, target: string): Promise<void> {
  const copying = underWay.get(target) ?? copyUnlessThere(source, target).finally(() => underWay.delete(target));
  underWay.set(target, copying);
  await copying;
}

async function copyUnlessThere(source: string, target: string): Promise<void> {
  if (await exists(target)) return;
  await removeAbandoned(path.dirname(target));
  // Random instead of the process id, because containers that share the folder may have equal process ids.
  const unfinished = `${target}.${randomBytes(6).toString('hex')}${UNFINISHED}`;
  try {
    await cp(source, unfinished, { recursive: true, verbatimSymlinks: true });
    await run('chmod', ['-R', 'a+rX', unfinished]);
    await syncTree(unfinished);
    await rename(unfinished, target);
    await syncToDisk(path.dirname(target));
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another process may have finished the same copy first.
    if (!(await exists(target))) throw error;
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((each) => each.endsWith(UNFINISHED))) {
    const abandoned = path.join(folder, name);
    const stats = await stat(abandoned).catch(() => undefined);
    if (stats && Date.now() - stats.mtimeMs > ABANDONED_MS) await rm(abandoned, { recursive: true, force: true });
  }
}

/** Writes all files to disk. After a power cut, the copy must not exist without its files. */
async function syncTree(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const written = entries.filter((entry) => entry.isFile() || entry.isDirectory());
  for (const entry of written) await syncToDisk(path.join(entry.parentPath, entry.name));
  await syncToDisk(folder);
}

const exists = (target: string) =>
  stat(target).then(
    () => true,
    () => false,
  );
