/**
 * The command that runs a project's program as its account, with no way to more rights, in a sandbox where its files
 * are not kept from others by the account, and that ends when the launcher does, which ends when this process does,
 * even when it is killed. Where the system has no `setpriv`, Node changes the account, and the isolate notices itself
 * that its parent is gone.
 */
import { spawnSync } from 'node:child_process';
import { type Account, asAccount, identityOf, systemProgram } from './account.js';
import { isolation } from './isolation.js';
import type { Command } from './launcher/messages.js';
import { type SandboxFiles, sandboxed } from './sandbox.js';

export interface Confinement {
  /** Where the program begins. */
  cwd: string;
  account: Account | undefined;
  files: SandboxFiles;
}

export function confined(program: readonly string[], how: Confinement): Pick<Command, 'command' | 'args' | 'account'> {
  const { cwd, account, files } = how;
  if (isolation().kind === 'sandbox') return split([...asAccount(account), ...sandboxed(program, cwd, files)]);
  setpriv ??= { program: workingSetpriv() };
  if (setpriv.program === undefined) return { ...split(program), ...(account && { account }) };
  const identity = account ? [...identityOf(account), '--bounding-set=-all', '--inh-caps=-all'] : [];
  return split([setpriv.program, '--pdeathsig', 'KILL', '--no-new-privs', ...identity, '--', ...program]);
}

const split = ([command, ...args]: readonly string[]) => ({ command: command as string, args });

let setpriv: { program: string | undefined } | undefined;

function workingSetpriv(): string | undefined {
  const program = systemProgram('setpriv');
  if (program === undefined) return undefined;
  const { status } = spawnSync(program, ['--pdeathsig', 'KILL', '--no-new-privs', '--', '/bin/true'], {
    timeout: 5_000,
  });
  return status === 0 ? program : undefined;
}
