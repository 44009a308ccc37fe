/**
 * Operators as programs for tests. They are restarted whenever they end, as by a kubelet or the supervisor. In: their
 * environment. Out: methods to harm them.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { keepForReport } from '@slipway/testing';

const PROGRAM = fileURLToPath(new URL('../main.js', import.meta.url));
const END_MS = 10_000;
const RESTART_MS = 100;
/** Maximum characters of output that are kept for the report of a failing test. */
const OUTPUT_LIMIT = 30_000;

export class Operators {
  readonly #count: number;
  readonly #env: Record<string, string>;
  readonly #folder: string;
  readonly #running = new Map<number, ChildProcess>();
  /** Indexes of the operators whose caches are filled. */
  readonly #ready = new Set<number>();
  #closed = false;
  #output = '';
  starts = 0;

  private constructor(count: number, env: Record<string, string>, folder: string) {
    this.#count = count;
    this.#env = env;
    this.#folder = folder;
  }

  static async start(count: number, env: Record<string, string>): Promise<Operators> {
    const operators = new Operators(count, env, await mkdtemp(path.join(tmpdir(), 'slipway-operators-')));
    for (let index = 0; index < count; index++) operators.#keepUp(index);
    return operators;
  }

  /** The process ids of the running operators. */
  get pids(): number[] {
    return [...this.#running.values()].flatMap(({ pid }) => pid ?? []);
  }

  get areReady(): boolean {
    return this.#ready.size === this.#count;
  }

  get output(): string {
    return this.#output;
  }

  kill(signal: NodeJS.Signals, pids = this.pids): void {
    for (const pid of pids) process.kill(pid, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#running.values()].map(end));
    await rm(this.#folder, { recursive: true, force: true });
  }

  #keepUp(index: number): void {
    if (this.#closed) return;
    this.starts += 1;
    const child = spawn(process.execPath, ['--enable-source-maps', PROGRAM], {
      // With an IPC channel it ends when this process does.
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { PATH: process.env.PATH ?? '', ...this.#env, SLIPWAY_LISTEN: path.join(this.#folder, `${index}.sock`) },
    });
    this.#running.set(index, child);
    child.once('message', () => this.#ready.add(index));
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-OUTPUT_LIMIT);
        keepForReport(text);
      });
    }
    child.on('exit', async () => {
      this.#running.delete(index);
      this.#ready.delete(index);
      await sleep(RESTART_MS);
      this.#keepUp(index);
    });
  }
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  // A stopped process receives no signal until it continues.
  child.kill('SIGCONT');
  const timer = setTimeout(() => child.kill('SIGKILL'), END_MS);
  await ended;
  clearTimeout(timer);
}
