/** Brings a machine to its desired state. In: an SSH client of root and the state. Out: what differed. */
import { readFile } from 'node:fs/promises';
import { parseJson } from '@slipway/program';
import type { SshClient } from '../ssh/ssh-client.js';
import { CURRENT } from './install-software.js';
import { type MachineState, textOf } from './state/state.js';

export interface StateReport {
  /** The hash of the state that the machine has now. */
  hash: string;
  /** The differences that were repaired, such as `unit slipway-nginx, which was stopped`. */
  repaired: string[];
  /** Units that do not run, although they were started. systemd continues to restart them. */
  down: string[];
}

const PROGRAM = new URL('on-machine/apply.js', import.meta.url);
/** The installation of packages takes most of it. */
const APPLY_MS = 10 * 60_000;

/**
 * Writes only files that differ, and restarts only units whose files changed. The software must be installed. Call it
 * once at a time for a machine. The state goes to standard input, because it contains secrets.
 */
export async function applyState(ssh: SshClient, state: MachineState, signal: AbortSignal): Promise<StateReport> {
  const program = await readFile(PROGRAM, 'utf8');
  const args = [`${CURRENT}/bin/node`, '--input-type=module', '--eval', program] as const;
  const { stdout } = await ssh.run(args, { input: textOf(state), timeoutMs: APPLY_MS }, signal);
  return parseJson(stdout) as StateReport;
}
