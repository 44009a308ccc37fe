import { open } from 'node:fs/promises';

/** Writes the content of a file, or the names in a folder, to the disk, so that it survives a power cut. */
export async function syncToDisk(target: string): Promise<void> {
  const handle = await open(target);
  await handle.sync().finally(() => handle.close());
}
