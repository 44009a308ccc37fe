/**
 * Cache of a project's imports. In: the cache's folder. Out: its size; and a cleanup that keeps only files which some
 * sources need. Deno writes the cache as the project's account, `check.ts` uses it, and `deployer.ts` cleans it.
 */
import { lstat, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Account } from '@slipway/sandbox';
import { type Deno, startDeno } from './deno.js';

const BYTES_PER_BLOCK = 512;
const BYTES_PER_MEGABYTE = 1024 * 1024;
const PATIENCE_MS = 15_000;

/** Returns the folder's size on disk. Deno may add and remove files at the same time. */
export async function megabytesOf(folder: string): Promise<number> {
  let blocks = 0;
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory()) blocks += ((await megabytesOf(place)) * BYTES_PER_MEGABYTE) / BYTES_PER_BLOCK;
    else
      blocks += await lstat(place).then(
        (found) => found.blocks,
        () => 0,
      );
  }
  return (blocks * BYTES_PER_BLOCK) / BYTES_PER_MEGABYTE;
}

export interface CacheToClean {
  deno: Deno;
  cache: string;
  account: Account | undefined;
  /** Sources whose imports stay in the cache. */
  sources: string[];
}

export async function cleanCache({ deno, cache, account, sources }: CacheToClean): Promise<void> {
  if (sources.length === 0) {
    await rm(cache, { recursive: true, force: true });
    return;
  }
  const child = startDeno(deno, ['clean', '--quiet', '--except', ...sources], { cwd: '/', cache, account });
  child.stdout.resume();
  child.stderr.resume();
  const timer = setTimeout(() => child.kill(), PATIENCE_MS);
  await child.closed.finally(() => clearTimeout(timer));
  // Caches of Deno about modules, including those of former versions.
  for (const name of await readdir(cache)) {
    if (/_cache_v\d+/.test(name)) await rm(path.join(cache, name), { force: true });
  }
}
