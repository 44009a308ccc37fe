/**
 * The cache of what a project's functions import. In: its folder. Out: how much it is, and the same folder with no more
 * than some sources need. Deno writes it as the project's account; it is asked for by `check.ts`, and cleaned by
 * `deployer.ts`.
 */
import { lstat, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Account } from './account.js';
import { type Deno, startDeno } from './deno.js';

const BYTES_PER_BLOCK = 512;
const BYTES_PER_MEGABYTE = 1024 * 1024;
const PATIENCE_MS = 15_000;

/** Returns the folder's size on disk. Deno may write it meanwhile, so files come and go. */
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
  /** The sources whose imports are kept. */
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
  // What Deno only remembers of modules, those of times past included.
  for (const name of await readdir(cache)) {
    if (/_cache_v\d+/.test(name)) await rm(path.join(cache, name), { force: true });
  }
}
