import { open } from 'node:fs/promises';

/** Writes a file's content, or a folder's list of names, to the disk, so that it outlives a power cut. */
export async function syncToDisk(target: string): Promise<void> {
  const handle = await open(target);
  await handle.sync().finally(() => handle.close());
}
