/**
 * Installs programs like the platform's, to measure them and compare with them. They have a separate lockfile, so none
 * of them is a dependency of the platform. In: nothing. Out: their folder, once they are installed. Tests here and the
 * benches use it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const PEERS = fileURLToPath(new URL('../../bench/peers/', import.meta.url));

/** npm's error codes when its registry is unreachable. */
const UNREACHABLE = new RegExp(
  '\\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|' +
    'ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED)\\b',
);

export class UnreachableRegistry extends Error {}

/** Installs missing packages. Throws UnreachableRegistry without a registry. */
export async function installPeers(): Promise<void> {
  if (await areInstalled()) return;
  process.stderr.write('installing the peers\n');
  const npm = spawn('npm', ['ci', '--ignore-scripts', '--fetch-retries=1', '--loglevel=error'], {
    cwd: PEERS,
    stdio: ['ignore', 2, 'pipe'],
  });
  let output = '';
  npm.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-10_000);
  });
  const [status] = await once(npm, 'close');
  if (status === 0) return;
  const message = `the peers in bench/peers could not be installed:\n${output}`;
  throw UNREACHABLE.test(output) ? new UnreachableRegistry(message) : new Error(message);
}

async function areInstalled(): Promise<boolean> {
  const timeOf = async (file: string) => (await stat(path.join(PEERS, file)).catch(() => undefined))?.mtimeMs;
  const [written, locked] = await Promise.all(['node_modules/.package-lock.json', 'package-lock.json'].map(timeOf));
  return written !== undefined && locked !== undefined && written >= locked;
}
