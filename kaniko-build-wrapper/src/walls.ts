/** Checks if this machine can isolate a build from everything else on it. */
import { accountOf, installedDeno, sealing, systemProgram } from '@slipway/sandbox';

let known: { missing: string | undefined } | undefined;

/** Returns the first missing requirement of isolation, or undefined. The result is cached. */
export function missingWall(): string | undefined {
  known ??= { missing: findMissing() };
  return known.missing;
}

function findMissing(): string | undefined {
  // `ip` brings the loopback interface up: the only way out is a port on loopback.
  for (const program of ['ip', 'git', 'sh']) if (!systemProgram(program)) return `the program ${program}`;
  try {
    return sealing({ account: accountOf(''), deno: installedDeno() }).missing;
  } catch (error) {
    return (error as Error).message;
  }
}
