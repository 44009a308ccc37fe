/**
 * A stored home: the folder of a stopped one-machine platform as `home.tar.zst`, and what was written to it as `state.json`. In: a home, or a
 * folder under e2e/fixtures. Out: the archive, or a home that a platform of this machine can open.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { postgresAccount } from '@slipway/postgres';
import type { WrittenState } from './written-state.js';

const FIXTURES = fileURLToPath(new URL('../../fixtures', import.meta.url));
/** 128 MiB: databases of one template are alike, and lie megabytes apart. */
const WINDOW_LOG = 27;
/** Made anew at each start. */
const LEFT_OUT = ['cache', 'logs'];

/** Names of the releases that wrote a home. */
export async function storedReleases(): Promise<string[]> {
  const entries = await readdir(FIXTURES, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

export async function pack(home: string, release: string, state: WrittenState): Promise<string> {
  const folder = path.join(FIXTURES, release);
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'state.json'), `${JSON.stringify(state, undefined, 2)}\n`);
  const archive = path.join(folder, 'home.tar.zst');
  const excluded = LEFT_OUT.map((name) => `--exclude=./${name}`);
  const tar = spawn('tar', ['-c', '-C', home, '--sort=name', ...excluded, '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(tar, 'exit');
  const params = {
    [constants.ZSTD_c_compressionLevel]: 19,
    [constants.ZSTD_c_windowLog]: WINDOW_LOG,
    [constants.ZSTD_c_enableLongDistanceMatching]: 1,
  };
  await pipeline(tar.stdout, createZstdCompress({ params }), createWriteStream(archive));
  await succeeded(ended);
  return archive;
}

/** Unpacks into `home`, and gives Postgres' folders to the account that Postgres runs as here. */
export async function unpack(release: string, home: string): Promise<WrittenState> {
  const folder = path.join(FIXTURES, release);
  // Root unpacks each file for its owner, as functions have user ids of their own; anyone else can own only their own files.
  const tar = spawn('tar', ['-x', '-C', home, '--numeric-owner'], { stdio: ['pipe', 'inherit', 'inherit'] });
  const ended = once(tar, 'exit');
  const params = { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG };
  await pipeline(createReadStream(path.join(folder, 'home.tar.zst')), createZstdDecompress({ params }), tar.stdin);
  await succeeded(ended);
  const account = await postgresAccount();
  if (account) {
    const postgres = (await readdir(home)).filter((name) => name.includes('postgres'));
    for (const name of postgres)
      await promisify(execFile)('chown', ['-R', `${account.uid}:${account.gid}`, path.join(home, name)]);
  }
  return JSON.parse(await readFile(path.join(folder, 'state.json'), 'utf8')) as WrittenState;
}

async function succeeded(ended: Promise<unknown[]>): Promise<void> {
  const [code] = await ended;
  if (code !== 0) throw new Error(`tar ended with ${code}`);
}
