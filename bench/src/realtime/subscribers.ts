/** Starts and drives a process with sockets that only count the messages they receive. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Login } from '../rest/database.js';

export interface SubscribersJob {
  /** URL of the socket, with its key. */
  url: string;
  sockets: number;
  /** The first message of each socket, with its token; none: the bare server needs no first message. */
  joins: string[];
  /** True if each socket waits for the message that its subscription to changes is active. */
  waitsForChanges: boolean;
  /** Where rows are inserted, to measure the latency of changes. */
  database?: Login;
}

export type SubscribersRun =
  /** The load: `flood` sends as fast as all sockets receive, with a few messages in flight. */
  | { kind: 'flood'; seconds: number }
  | { kind: 'paced'; seconds: number; perSecond: number }
  | { kind: 'changes'; seconds: number; perSecond: number };

export interface Deliveries {
  deliveries: number;
  perSecond: number;
  p50: number;
  p95: number;
  missing: number;
}

export class Subscribers {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Resolves when every socket has joined. */
  static async open(job: SubscribersJob): Promise<Subscribers> {
    const script = fileURLToPath(new URL('./subscriber-process.js', import.meta.url));
    const subscribers = new Subscribers(fork(script, { stdio: ['ignore', 2, 2, 'ipc'] }));
    await subscribers.#ask(job);
    return subscribers;
  }

  run(run: SubscribersRun): Promise<Deliveries> {
    return this.#ask(run) as Promise<Deliveries>;
  }

  #ask(message: SubscribersJob | SubscribersRun): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`the subscribers ended with status ${code}`));
      this.#child.once('exit', onExit);
      this.#child.once('message', (answer) => {
        this.#child.off('exit', onExit);
        resolve(answer);
      });
      this.#child.send(message);
    });
  }

  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}
