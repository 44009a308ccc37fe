/**
 * Archives a home: the folder of a stopped one-machine platform. In: a home. Out: its archive, or a home that a
 * platform on this machine can open.
 */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { postgresAccount } from '@slipway/postgres';
import { compress, decompress } from './archive.js';

/** Folders that are not archived, because each start makes them again. */
const LEFT_OUT = ['cache', 'logs'];

export const packHome = (archive: string, home: string) =>
  compress(archive, ['-C', home, ...LEFT_OUT.map((name) => `--exclude=./${name}`), '.']);

/** Unpacks into `home`, and makes the account that runs Postgres here the owner of its folders. */
export async function unpackHome(archive: string, home: string): Promise<void> {
  await decompress(archive, home);
  const account = await postgresAccount();
  if (!account) return;
  const postgres = (await readdir(home)).filter((name) => name.includes('postgres'));
  for (const name of postgres)
    await promisify(execFile)('chown', ['-R', `${account.uid}:${account.gid}`, path.join(home, name)]);
}
