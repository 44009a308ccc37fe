/**
 * Packs folders of files as `.tar.zst`, with owners and times. In and out: arguments of tar. The archives of a home and
 * of a cluster use it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';

/**
 * Logarithm of the window of the compression: 128 MiB, because databases of one template have equal parts, which are
 * megabytes apart.
 */
const WINDOW_LOG = 27;

/** `what` has tar's arguments that name the files. */
export async function compress(archive: string, what: string[]): Promise<void> {
  const tar = spawn('tar', ['-c', '--sort=name', ...what], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(tar, 'exit');
  const params = {
    [constants.ZSTD_c_compressionLevel]: 19,
    [constants.ZSTD_c_windowLog]: WINDOW_LOG,
    [constants.ZSTD_c_enableLongDistanceMatching]: 1,
  };
  await pipeline(tar.stdout, createZstdCompress({ params }), createWriteStream(archive));
  await succeeded(ended);
}

/** Unpacks into `folder`. Root unpacks each file for its owner. Another account can only own its own files. */
export async function decompress(archive: string, folder: string): Promise<void> {
  // Without --ignore-zeros tar ends before the last block of the archive, and writing the rest to its input fails.
  const tar = spawn('tar', ['-x', '--ignore-zeros', '-C', folder, '--numeric-owner'], {
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  const ended = once(tar, 'exit');
  const params = { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG };
  await pipeline(createReadStream(archive), createZstdDecompress({ params }), tar.stdin);
  await succeeded(ended);
}

async function succeeded(ended: Promise<unknown[]>): Promise<void> {
  const [code] = await ended;
  if (code !== 0) throw new Error(`tar ended with ${code}`);
}
