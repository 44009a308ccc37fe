/** Formats the disk space of files and folders for people. */
import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';

export interface DiskUsage {
  bytes: number;
  /** False if the walk stopped at its limit. */
  isComplete: boolean;
}

/** Returns the disk space of `target`. Follows no link, and visits at most `mostEntries` files. */
export async function diskUsage(target: string, mostEntries: number): Promise<DiskUsage> {
  const waiting = [target];
  let bytes = 0;
  for (let visited = 0; waiting.length > 0; visited++) {
    if (visited >= mostEntries) return { bytes, isComplete: false };
    const next = waiting.pop() as string;
    const stats = await lstat(next).catch(() => undefined);
    bytes += (stats?.blocks ?? 0) * BLOCK_BYTES;
    if (!stats?.isDirectory()) continue;
    for (const name of await readdir(next).catch(() => [])) waiting.push(path.join(next, name));
  }
  return { bytes, isComplete: true };
}

/** Bytes of a unit of `blocks`, on every file system. */
const BLOCK_BYTES = 512;

export const inWords = ({ bytes, isComplete }: DiskUsage): string =>
  `${isComplete ? '' : 'more than '}${(bytes / 2 ** 20).toFixed(1)} MB`;
