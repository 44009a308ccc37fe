/**
 * Checks the programs that npm installs and that every platform needs: Postgres and Deno. In: their locations. Out:
 * nothing, or an error of one line with the program and the fix. The supervisor calls it before it makes or starts
 * anything.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { installedBinaries } from '@slipway/postgres';
import { installedDeno } from '@slipway/sandbox';
import { StartProblem } from './problem.js';

const run = promisify(execFile);
const PATIENCE_MS = 30_000;

export interface RequiredProgram {
  name: string;
  /** Returns the program's path. Throws if npm did not install it. */
  find(): Promise<string>;
}

const PROGRAMS: readonly RequiredProgram[] = [
  { name: 'Postgres', find: async () => path.join((await installedBinaries()).native, 'bin', 'postgres') },
  { name: 'Deno', find: async () => installedDeno() },
];

/** Throws a StartProblem for the first program that is not installed or does not run. */
export async function expectPrograms(programs: readonly RequiredProgram[] = PROGRAMS): Promise<void> {
  await Promise.all(programs.map(expectRuns));
}

async function expectRuns({ name, find }: RequiredProgram): Promise<void> {
  const file = await find().catch((error: Error) => {
    throw new StartProblem(
      `${error.message}: run "npm ci --ignore-scripts" in the folder of Slipway. ` +
        'npm has it for Linux with glibc and for macOS, on x64 and arm64',
    );
  });
  // A missing library or processor feature shows only when the program runs.
  await run(file, ['--version'], { timeout: PATIENCE_MS }).catch((error: Error & { stderr?: string }) => {
    const why = error.stderr?.trim().split('\n')[0] || error.message;
    throw new StartProblem(`${name} does not run on this machine (${why}): it needs Linux with glibc, or macOS`);
  });
}
