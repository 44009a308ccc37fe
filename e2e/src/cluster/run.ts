/** Programs that the cluster's harness runs: kube, kubectl, kind, docker. */
import { spawn } from 'node:child_process';

const OUTPUT_LIMIT = 20_000;

/** Resolves with what it printed on standard output; fails with the end of what it said. */
export function run(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let said = '';
    const keep = (chunk: string) => {
      said = (said + chunk).slice(-OUTPUT_LIMIT);
    };
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
      keep(chunk);
    });
    child.stderr.setEncoding('utf8').on('data', keep);
    child.on('error', (error) => reject(new Error(`${command}: ${error.message}`)));
    child.on('close', (code) =>
      code === 0 ? resolve(output) : reject(new Error(`${command} ${args.join(' ')} ended with ${code}:\n${said}`)),
    );
  });
}

export const succeeds = (command: string, args: string[]): Promise<boolean> =>
  run(command, args).then(
    () => true,
    () => false,
  );
