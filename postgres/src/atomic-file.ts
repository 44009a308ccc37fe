import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { syncToDisk } from './sync-to-disk.js';

/**
 * Writes a file atomically, even if the power fails: readers see the whole content or no file. Only the owner can read
 * it.
 */
export async function writeAtomically(file: string, content: string, mode = 0o600): Promise<void> {
  const unfinished = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    const handle = await open(unfinished, 'w', mode);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(unfinished, file);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  // The file's name must survive a power cut too.
  await syncToDisk(path.dirname(file));
}
