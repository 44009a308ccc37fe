/** The generator of uploads and downloads, seen from the bench that uses it: a process of its own, so that it shares no event loop with a server. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { LoadRun, Sample } from '../measure/load.js';

export interface TransferJob {
  direction: 'upload' | 'download';
  bytes: number;
  /** What an object's name is put behind: `http://127.0.0.1:4000/p/<ref>/storage/v1/object/bench/`. */
  baseUrl: string;
  headers: Record<string, string>;
  /** How all that was uploaded is removed after each run: a method and a path. */
  clear: [method: string, path: string];
}

export class Transfers {
  readonly #child: ChildProcess;

  constructor(job: TransferJob) {
    const script = fileURLToPath(new URL('./transfer-process.js', import.meta.url));
    this.#child = fork(script, { stdio: ['ignore', 2, 2, 'ipc'] });
    this.#child.send(job);
  }

  run(run: LoadRun): Promise<Sample> {
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`the transfers ended with status ${code}`));
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
