/** Writes our own files so that they survive a power cut: the data is on the disk before a name refers to it. */
import { open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Flushes the content of a file or a folder to the disk. */
export async function flush(target: string): Promise<void> {
  const handle = await open(target, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Replaces the content of the file atomically: readers see the old content or the new one. One writer at a time. */
export async function replaceFile(file: string, text: string): Promise<void> {
  const next = `${file}.new`;
  await rm(next, { force: true });
  await writeFile(next, text, { mode: 0o600, flag: 'wx', flush: true });
  await rename(next, file);
  await flush(path.dirname(file));
}

/** Handles a rejected `node:fs` call: returns undefined if the file does not exist, otherwise throws the error. */
export const unlessMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code === 'ENOENT') return undefined;
  throw error;
};

export const namesIn = async (folder: string): Promise<string[]> => (await readdir(folder).catch(unlessMissing)) ?? [];
