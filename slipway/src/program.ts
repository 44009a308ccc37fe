/**
 * One program kept up: a Node process of its own with an IPC channel, whose loss ends it. In: how to run it. Out:
 * started, started again whenever it ends, stopped. Called by the supervisor.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs } from './backoff.js';
import type { LogFile } from './log-file.js';

export interface ProgramOptions {
  name: string;
  /** Path of its `main.js`. */
  main: string;
  environment: Record<string, string>;
  nodeFlags: string[];
  log: LogFile;
  /** Told of each end that nobody asked for. */
  onEnd: (how: string, restartMs: number) => void;
}

/** A program that has run this long was up: its next end is a first one. */
const SETTLED_MS = 60_000;
const STOP_PATIENCE_MS = 10_000;

export class Program {
  readonly name: string;
  readonly log: LogFile;
  /** Ends in a row, none of which came long after its start. */
  failures = 0;
  #child: ChildProcess | undefined;
  #stopped = new AbortController();
  readonly #options: ProgramOptions;

  constructor(options: ProgramOptions) {
    this.name = options.name;
    this.log = options.log;
    this.#options = options;
  }

  start(): void {
    try {
      this.#child = this.#fork();
    } catch (error) {
      // A machine without memory for one more process refuses at once.
      void this.#again((error as Error).message);
    }
  }

  #fork(): ChildProcess {
    const { main, environment, nodeFlags, log } = this.#options;
    const startedAt = performance.now();
    const child = fork(main, {
      env: environment,
      execArgv: ['--enable-source-maps', ...nodeFlags],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      // In a group of its own, so that a Ctrl-C in the terminal reaches the supervisor alone, which ends things in
      // order.
      detached: true,
    });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    child.on('error', () => {});
    child.on('close', (code, signal) => {
      if (performance.now() - startedAt > SETTLED_MS) this.failures = 0;
      void this.#again(signal ?? `exit code ${code}`);
    });
    return child;
  }

  async #again(how: string): Promise<void> {
    this.#child = undefined;
    if (this.#stopped.signal.aborted) return;
    this.failures++;
    const delay = backoffMs(this.failures);
    this.#options.onEnd(how, delay);
    await sleep(delay, undefined, { signal: this.#stopped.signal }).then(
      () => this.start(),
      () => {},
    );
  }

  /** Lets it finish what it does, for a while. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    const child = this.#child;
    if (!child) return;
    const gone = new Promise((resolve) => child.on('close', resolve));
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), STOP_PATIENCE_MS);
    await gone;
    clearTimeout(patience);
  }

  kill(): void {
    this.#stopped.abort();
    this.#child?.kill('SIGKILL');
  }
}
