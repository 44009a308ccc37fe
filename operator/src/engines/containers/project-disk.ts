/**
 * The disk of one project's images and containers: a file system in a sparse file. In: a size and a place. Out:
 * a folder in which no more than that can be stored, and which no other project sees.
 */
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { unlessMissing } from '@slipway/program';
import { CommandFailed, systemCommand } from './system-command.js';

export interface DiskPlace {
  /** The sparse file. */
  file: string;
  /** The folder where it is mounted. */
  folder: string;
}

/** The file gives back the blocks of deleted files. */
const MOUNT = 'loop,nosuid,nodev,noatime,discard';

/**
 * Makes and mounts the disk. One that exists grows when it is mounted, and never shrinks: the kernel lets only some
 * roots change the size of a mounted file system.
 */
export async function openDisk({ file, folder }: DiskPlace, bytes: number): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  if (!(await isMounted(folder))) await mountDisk(file, folder, bytes);
}

async function mountDisk(file: string, folder: string, bytes: number): Promise<void> {
  const size = (await stat(file).catch(unlessMissing))?.size;
  if (size === undefined) await format(file, bytes);
  else if (size < bytes || (await isGrowing(file))) await grow(file, bytes);
  await systemCommand(['mount', '-o', MOUNT, file, folder]);
  // Blocks that were freed just before an unmount may not be given back yet.
  await systemCommand(['fstrim', folder]).catch(() => undefined);
}

/** Unmounts the disk. Its content stays in the file. */
export async function closeDisk({ folder }: Pick<DiskPlace, 'folder'>): Promise<void> {
  while (await isMounted(folder)) await systemCommand(['umount', folder]);
}

/** Returns the bytes that the disk uses on the disk of this machine. */
export async function bytesOfDisk({ file }: Pick<DiskPlace, 'file'>): Promise<number> {
  const { blocks = 0 } = (await stat(file).catch(unlessMissing)) ?? {};
  return blocks * 512;
}

/** A file system that is not complete has another name, so that a killed process leaves none. */
async function format(file: string, bytes: number): Promise<void> {
  const made = `${file}.new`;
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  await rm(made, { force: true });
  await systemCommand(['truncate', `--size=${bytes}`, made]);
  await systemCommand(['mkfs.ext4', '-q', '-F', '-m', '0', '-E', 'nodiscard', made]);
  await rename(made, file);
}

/** A killed process may leave a file that is larger than its file system. */
async function grow(file: string, bytes: number): Promise<void> {
  await writeFile(growingMark(file), '');
  await systemCommand(['truncate', `--size=>${bytes}`, file]);
  // Exit code 1: the check repaired something.
  await systemCommand(['e2fsck', '-f', '-p', file]).catch((error) => {
    if (!(error instanceof CommandFailed) || error.exitCode !== 1) throw error;
  });
  await systemCommand(['resize2fs', file]);
  await rm(growingMark(file));
}

const growingMark = (file: string) => `${file}.growing`;
const isGrowing = async (file: string) => (await stat(growingMark(file)).catch(unlessMissing)) !== undefined;

const isMounted = (folder: string): Promise<boolean> =>
  systemCommand(['mountpoint', '--quiet', folder]).then(
    () => true,
    () => false,
  );
