import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** Writes a file that others find whole or not at all, whenever the power goes; only its owner may read it. */
export async function writeAtomically(file: string, content: string): Promise<void> {
  const unfinished = `${file}.${process.pid}.new`;
  try {
    const handle = await open(unfinished, 'w', 0o600);
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
  const folder = await open(path.dirname(file));
  // The name too must outlive a power cut.
  await folder.sync().finally(() => folder.close());
}
