/** Returns the binary of postrust-server. At its first use cargo builds it from its crate, beside the other peers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { peerScript } from '../peers.js';

const POSTRUST_VERSION = '3.1.0';

const FOLDER = peerScript(`.cache/postrust-${POSTRUST_VERSION}`);
const BINARY = path.join(FOLDER, 'bin', 'postrust');

/** The binary, or the reason for its absence. */
export async function postrustBinary(
  environment: NodeJS.ProcessEnv,
  say: (text: string) => void,
): Promise<{ binary: string } | { absent: string }> {
  if (existsSync(BINARY)) return { binary: BINARY };
  if ((await cargo(['--version'], environment, 'ignore')) !== 0) {
    return { absent: 'install cargo, which builds it' };
  }
  say(`building postrust-server ${POSTRUST_VERSION} once, which takes some minutes`);
  const install = ['install', '--quiet', '--root', FOLDER, `postrust-server@${POSTRUST_VERSION}`];
  // Its lockfile may name versions that the configured registry does not have.
  for (const args of [[...install, '--locked'], install]) {
    if ((await cargo(args, environment, 'inherit')) === 0) return { binary: BINARY };
  }
  return { absent: `cargo ${install.join(' ')} failed` };
}

async function cargo(args: string[], env: NodeJS.ProcessEnv, output: 'ignore' | 'inherit'): Promise<number | null> {
  const child = spawn('cargo', args, { env, stdio: ['ignore', output === 'ignore' ? 'ignore' : 2, output] });
  const [code] = await once(child, 'close').catch(() => [null]);
  return code;
}
