/** The closed-loop load generator, seen from the bench that uses it: a process of its own, so that it shares no event loop with a server. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { RequestTemplate } from './request-template.js';

export interface LoadJob {
  /** Of the project: `http://127.0.0.1:4000/p/<ref>`. */
  baseUrl: string;
  scenario:
    | { kind: 'template'; template: RequestTemplate }
    | { kind: 'token-chain'; apikey: string; refreshTokens: string[] };
  /** Any other one is a failure. */
  expectedStatuses: number[];
}

export interface LoadRun {
  connections: number;
  seconds: number;
}

/** What one run saw. Latencies in milliseconds; pgbench tells no percentiles. */
export interface Sample {
  requests: number;
  perSecond: number;
  p50?: number;
  p95?: number;
  p99?: number;
  generatorCpuSeconds?: number;
  failures: number;
  firstFailure: string;
}

export class LoadGenerator {
  readonly #child: ChildProcess;

  constructor(job: LoadJob) {
    this.#child = fork(fileURLToPath(new URL('./load-process.js', import.meta.url)), {
      stdio: ['ignore', 2, 2, 'ipc'],
    });
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
