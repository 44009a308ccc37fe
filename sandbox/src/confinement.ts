/**
 * Builds the command that runs a project's program: under its account, without new privileges, and in a sandbox if the
 * account does not protect the files of other projects. The program ends when the launcher does, and the launcher ends
 * when this process does, even by SIGKILL. If the system has no `setpriv`, Node changes the account, and the program
 * itself detects that its parent has ended.
 */
import { spawnSync } from 'node:child_process';
import { type Account, asAccount, identityOf, systemProgram } from './account.js';
import { isolationKind } from './isolation.js';
import type { Command } from './launcher/messages.js';
import { type SandboxFiles, sandboxed } from './sandbox.js';

export interface Confinement {
  /** Working directory of the program. */
  cwd: string;
  account: Account | undefined;
  files: SandboxFiles;
}

export function confined(program: readonly string[], how: Confinement): Pick<Command, 'command' | 'args' | 'account'> {
  const { cwd, account, files } = how;
  if (isolationKind() === 'sandbox') return split([...asAccount(account), ...sandboxed(program, cwd, files)]);
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
