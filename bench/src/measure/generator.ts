/**
 * Starts and drives a process that sends requests in a closed loop. It is a process of its own so that it shares no
 * event loop with a server.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { LoadRun, Sample } from './load.js';

export class Generator<Job extends object> {
  readonly #child: ChildProcess;

  /**
   * Starts `script`, which receives the job as its first message, then runs, each of which it answers with its sample.
   */
  constructor(script: URL, job: Job) {
    this.#child = fork(fileURLToPath(script), { stdio: ['ignore', 2, 2, 'ipc'] });
    this.#child.send(job);
  }

  run(run: LoadRun): Promise<Sample> {
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`the load generator ended with status ${code}`));
      this.#child.once('exit', onExit);
      this.#child.once('message', (sample) => {
        this.#child.off('exit', onExit);
        resolve(sample as Sample);
      });
      this.#child.send(run);
    });
  }

  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}
