/** Runs the programs of the cluster tests: kube, kubectl, kind, docker. */
import { spawn } from 'node:child_process';

const OUTPUT_LIMIT = 20_000;
/**
 * Environment of these programs. A test file may start parts of the cluster again, which do not count as leftovers of
 * the file.
 */
const ENVIRONMENT = { ...process.env, SLIPWAY_OUTLIVES_TEST: '1' };

/** Resolves with the standard output. Rejects with the end of all output. */
export function run(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let printed = '';
    const keep = (chunk: string) => {
      printed = (printed + chunk).slice(-OUTPUT_LIMIT);
    };
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
      keep(chunk);
    });
    child.stderr.setEncoding('utf8').on('data', keep);
    child.on('error', (error) => reject(new Error(`${command}: ${error.message}`)));
    child.on('close', (code) =>
      code === 0 ? resolve(output) : reject(new Error(`${command} ${args.join(' ')} ended with ${code}:\n${printed}`)),
    );
  });
}

export const succeeds = (command: string, args: string[]): Promise<boolean> =>
  run(command, args).then(
    () => true,
    () => false,
  );
