/**
 * Limits the disk space of a build. Reads the free space of the file system ten times a second, and adds up the build's
 * files when they may have exceeded the limit. In: the started command, its folders and the limit. Out: a promise of
 * the watch's end. A deleted file that a process still has open counts only through the free space.
 */
import { lstat, opendir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Watched } from '@slipway/sandbox';

const INTERVAL_MS = 100;
/** Number of looks at the free space after which the build's files are added up in any case. */
const LOOKS = 50;
/** Disk space that stays free for everything else on the machine. */
const RESERVE_BYTES = 256 * 2 ** 20;
const FILES = 1_000_000;

/** Resolves with the reason if the watch killed the command, or with undefined if the command ended by itself. */
export async function watchDisk(
  command: Watched,
  folders: readonly string[],
  limitBytes: number,
): Promise<string | undefined> {
  let hasEnded = false;
  const end = () => {
    hasEnded = true;
  };
  command.closed.then(end, end);
  let room = limitBytes;
  let freeBefore = await freeBytes(folders);
  let reason: string | undefined;
  for (let look = 1; !hasEnded; look++) {
    const free = await freeBytes(folders);
    if (free < RESERVE_BYTES) reason ??= "the machine's disk is full";
    // Until the next sum, the loss of free space is the most that the build can have written.
    if (reason === undefined && (freeBefore - free > room / 2 || look % LOOKS === 0)) {
      const { bytes, files } = await sizeOf(folders, limitBytes);
      if (bytes > limitBytes) reason = `its files use more than ${Math.round(limitBytes / 2 ** 20)} MiB of disk`;
      if (files > FILES) reason = `it made more than ${FILES} files`;
      room = Math.max(limitBytes - bytes, 0);
      freeBefore = free;
    }
    if (reason !== undefined) command.kill();
    await pause(INTERVAL_MS);
  }
  return reason;
}

/** Returns the free space of the fullest file system. */
async function freeBytes(folders: readonly string[]): Promise<number> {
  const all = await Promise.all(folders.map((folder) => statfs(folder)));
  return Math.min(...all.map(({ bavail, bsize }) => bavail * bsize));
}

/** Adds up the files below the folders, and stops above the limit. Follows no links. */
export async function sizeOf(folders: readonly string[], limitBytes = Number.POSITIVE_INFINITY) {
  const sum = { bytes: 0, files: 0 };
  const waiting = [...folders];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    // Someone may remove the folder during the read.
    await addFolder(next, sum, waiting, limitBytes).catch(() => undefined);
    if (sum.files > FILES || sum.bytes > limitBytes) break;
  }
  return sum;
}

async function addFolder(
  folder: string,
  sum: { bytes: number; files: number },
  waiting: string[],
  limitBytes: number,
): Promise<void> {
  for await (const entry of await opendir(folder)) {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory()) waiting.push(place);
    const { blocks, nlink } = await lstat(place).catch(() => ({ blocks: 0, nlink: 1 }));
    // A file with several names is counted once over all of its names.
    sum.bytes += (blocks * 512) / (entry.isFile() ? nlink : 1);
    if (++sum.files > FILES || sum.bytes > limitBytes) return;
  }
}
