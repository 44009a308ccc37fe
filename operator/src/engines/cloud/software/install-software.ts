/**
 * Installs the software of the platform on a machine. In: an SSH client of root and a Pack. Out: the release is at
 * `/opt/slipway/releases/<id>`, complete, and `/opt/slipway/current` links to it. The former release stays.
 */
import type { SshClient } from '../ssh/ssh-client.js';
import { INSTALL_SCRIPT } from './install-script.js';
import type { Pack } from './pack/pack.js';

/** The release that runs. Units name their programs below this path. */
export const CURRENT = '/opt/slipway/current';

type Step = 'find' | 'unpack' | 'switch';

/** A slow disk checks and unpacks 300 MB in less. */
const STEP_MS = 5 * 60_000;

/**
 * Continues after an interruption: skips the upload and the release that are there with their checksums, and replaces
 * a damaged release. Restarts no unit. Call it once at a time for a machine.
 */
export async function installSoftware(ssh: SshClient, pack: Pack, signal: AbortSignal): Promise<void> {
  const run = async (step: Step) => {
    const args = ['sh', '-c', INSTALL_SCRIPT, 'install', step, pack.id, pack.sha256, pack.manifestSha256] as const;
    return (await ssh.run(args, { timeoutMs: STEP_MS }, signal)).stdout.trim();
  };
  const next = await run('find');
  if (next === 'upload') {
    const to = `/opt/slipway/incoming/${pack.id}.tar.gz`;
    await ssh.upload({ from: pack.file, to, sha256: pack.sha256, mode: 0o600 }, signal);
  }
  if (next !== 'switch') await run('unpack');
  await run('switch');
}
