/**
 * Records which installation owns a folder in /var/lib/slipway. The record of `<folder>` is the file `<folder>.home`.
 * It contains the absolute path of the installation's link to the folder. The record is written before the link. So if
 * a recorded link is missing, the installation was deleted.
 */
import { readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { writeAtomically } from './atomic-file.js';

export const recordOf = (folder: string): string => `${folder}.home`;

/** Returns the path of the link, or undefined without a readable record. */
export async function readRecord(folder: string): Promise<string | undefined> {
  const link = await readFile(recordOf(folder), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
  return path.isAbsolute(link) ? link : undefined;
}

export const writeRecord = (folder: string, link: string): Promise<void> => writeAtomically(recordOf(folder), link);

/**
 * Records `link`, unless another installation's link still leads to the folder, for example in the original of a copied
 * home.
 */
export async function adoptFolder(folder: string, link: string): Promise<void> {
  const recorded = await readRecord(folder);
  if (recorded === link || (recorded && (await linkTarget(recorded)) === folder)) return;
  await writeRecord(folder, link);
}

/** Returns the target of the link, or undefined if there is no link. Throws if the disk fails. */
export async function linkTarget(link: string): Promise<string | undefined> {
  return await readlink(link).catch((error: NodeJS.ErrnoException) => {
    if (!['ENOENT', 'ENOTDIR', 'EINVAL'].includes(error.code ?? '')) throw error;
    return undefined;
  });
}
