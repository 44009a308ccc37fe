/**
 * The software of a machine as one archive: Node, Deno, the Postgres binaries, and the data plane with what it imports.
 * In: the folder of the installation and a cache folder. Out: a Pack. Called by the engine of machines.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export interface Pack {
  /** The release: a hash over the content. The same installation has the same id on every host. */
  id: string;
  /** The path of the archive, a tar file with gzip. */
  file: string;
  bytes: number;
  /** The checksum of the archive, in hexadecimal. */
  sha256: string;
  /** The checksum of the list of checksums in the archive, in hexadecimal. */
  manifestSha256: string;
}

const PROGRAM = fileURLToPath(new URL('main.js', import.meta.url));
/** This file is in `operator/dist/engines/cloud/software/pack`. */
const INSTALLATION = fileURLToPath(new URL('../../../../../../', import.meta.url));

/**
 * Returns the pack of this installation. Makes it in a child process if the cache has none of the same content, which
 * takes about 20 seconds of one core. Rejects on an installation without programs for Linux on x64, and says why.
 */
export async function ensurePack(cache: string, signal: AbortSignal, installation = INSTALLATION): Promise<Pack> {
  const work = promisify(execFile)(process.execPath, [PROGRAM, installation, cache], { signal, env: {} });
  const { stdout } = await work.catch((error: Error & { stderr?: string }) => {
    signal.throwIfAborted();
    throw new Error(`The software of machines was not packed: ${error.stderr?.trim() || error.message}`);
  });
  return JSON.parse(stdout) as Pack;
}
