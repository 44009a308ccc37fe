/** Runs the kubectl of this machine against a platform. */
import { spawn, spawnSync } from 'node:child_process';

export const kubectlIsThere = spawnSync('kubectl', ['version', '--client']).status === 0;

/** Runs kubectl. Resolves with its output, and rejects with its error output. */
export function kubectl(kubeconfig: string, args: string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    // A separate cache folder prevents reading another server's discovery.
    const child = spawn('kubectl', ['--kubeconfig', kubeconfig, '--cache-dir', `${kubeconfig}.cache`, ...args]);
    let output = '';
    let problem = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk) => {
      problem += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve(output) : reject(new Error(`kubectl ${args.join(' ')} ended with ${code}: ${problem}`)),
    );
    child.stdin.end(input);
  });
}
