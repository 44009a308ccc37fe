/** `npm run bench [-- name …]`: installs the peers that are measured beside the platform, then runs the benches. */
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { prepare, root, runNode } from './prepare.mjs';

const peers = path.join(root, 'bench', 'peers');

function peersAreInstalled() {
  const written = path.join(peers, 'node_modules', '.package-lock.json');
  return existsSync(written) && statSync(written).mtimeMs >= statSync(path.join(peers, 'package-lock.json')).mtimeMs;
}

prepare();
if (!peersAreInstalled()) {
  process.stderr.write('installing the peers\n');
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--loglevel=error'], {
    cwd: peers,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) {
    process.stderr.write('slipway: the peers in bench/peers could not be installed\n');
    process.exit(1);
  }
}
runNode(['bench/dist/main.js', ...process.argv.slice(2)]);
