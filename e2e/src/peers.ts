/**
 * Programs that do what the platform does, to measure and compare with: packages of their own lockfile, so that none of
 * them is a dependency of the platform. In: nothing. Out: the folder in which they are installed, once they are. Used
 * by tests here and the benches.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const PEERS = fileURLToPath(new URL('../../bench/peers/', import.meta.url));

/** npm's messages when its registry is unreachable. */
const UNREACHABLE =
  /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED)\b/;

export class UnreachableRegistry extends Error {}

/** Installs what is not there yet; without a registry the error is an UnreachableRegistry. */
export async function installPeers(): Promise<void> {
  if (await areInstalled()) return;
  process.stderr.write('installing the peers\n');
  const npm = spawn('npm', ['ci', '--ignore-scripts', '--fetch-retries=1', '--loglevel=error'], {
    cwd: PEERS,
    stdio: ['ignore', 2, 'pipe'],
  });
  let said = '';
  npm.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-10_000);
  });
  const [status] = await once(npm, 'close');
  if (status === 0) return;
  const message = `the peers in bench/peers could not be installed:\n${said}`;
  throw UNREACHABLE.test(said) ? new UnreachableRegistry(message) : new Error(message);
}

async function areInstalled(): Promise<boolean> {
  const timeOf = async (file: string) => (await stat(path.join(PEERS, file)).catch(() => undefined))?.mtimeMs;
  const [written, locked] = await Promise.all(['node_modules/.package-lock.json', 'package-lock.json'].map(timeOf));
  return written !== undefined && locked !== undefined && written >= locked;
}
