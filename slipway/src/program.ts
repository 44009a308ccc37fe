/**
 * Keeps one program running: a Node process with an IPC channel. The program ends when the channel closes. In: the
 * options of the program. Out: a program that is started, restarted whenever it ends, and stopped. Called by the
 * supervisor.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf, HANG_MS, HUNG_EXIT_CODE } from '@slipway/program';
import type { LogFile } from './log-file.js';
import type { ProgramName } from './programs.js';

export interface ProgramOptions {
  name: ProgramName;
  /** The path of the program's `main.js`. */
  main: string;
  environment: Record<string, string>;
  nodeFlags: readonly string[];
  log: LogFile;
  /** Called for each unexpected end. */
  onEnd: (how: string, restartMs: number) => void;
}

/** Delays before restarts, after several ends in a row. */
export const RESTARTS = { firstMs: 250, maxMs: 15_000 };
/** Milliseconds after which a program counts as started. If it ends later, its restart has the first delay again. */
const SETTLED_MS = 60_000;
const SOURCE_MAPS = new URL('./source-maps.js', import.meta.url);

export class Program {
  readonly name: ProgramName;
  readonly log: LogFile;
  /** Ends in a row that came soon after a start. */
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
      // fork throws at once if the machine has no memory for another process.
      void this.#again((error as Error).message);
    }
  }

  #fork(): ChildProcess {
    const { main, environment, nodeFlags, log } = this.#options;
    const startedAt = performance.now();
    const child = fork(main, {
      env: environment,
      execArgv: [`--import=${SOURCE_MAPS}`, ...nodeFlags],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      // In its own process group, so that Ctrl-C in the terminal signals only the supervisor, which then stops all in
      // order.
      detached: true,
    });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    child.on('error', () => {});
    child.on('close', (code, signal) => {
      if (performance.now() - startedAt > SETTLED_MS) this.failures = 0;
      void this.#again(signal ?? reasonOf(code));
    });
    return child;
  }

  async #again(how: string): Promise<void> {
    this.#child = undefined;
    if (this.#stopped.signal.aborted) return;
    this.failures++;
    const delay = delayOf(RESTARTS, this.failures);
    this.#options.onEnd(how, delay);
    await sleep(delay, undefined, { signal: this.#stopped.signal }).then(
      () => this.start(),
      () => {},
    );
  }

  /** Stops the program, and kills it after `patienceMs`. */
  async stop(patienceMs: number): Promise<void> {
    this.#stopped.abort();
    const child = this.#child;
    if (!child) return;
    const ended = new Promise((resolve) => child.on('close', resolve));
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    await ended;
    clearTimeout(patience);
  }

  kill(): void {
    this.#stopped.abort();
    this.#child?.kill('SIGKILL');
  }
}

const reasonOf = (code: number | null): string =>
  code === HUNG_EXIT_CODE
    ? `exit code ${code}: it hung, its main thread used ${HANG_MS / 1000} s of processor time in one turn`
    : `exit code ${code}`;
