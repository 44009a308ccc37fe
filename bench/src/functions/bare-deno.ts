/** Runs a function by `deno run` of a file, without isolation: as a developer starts one by hand. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { installedDeno } from '@slipway/sandbox';

const POLL_MS = 1;
const PATIENCE_MS = 20_000;

export class BareDeno {
  readonly socket: string;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  private constructor(folder: string) {
    this.#folder = folder;
    this.socket = path.join(folder, 's');
  }

  /** `handler` is the source of the argument of Deno.serve. */
  static async make(handler: string): Promise<BareDeno> {
    const bare = new BareDeno(await mkdtemp(path.join(tmpdir(), 'slipway-bare-')));
    const source = `Deno.serve({ path: ${JSON.stringify(bare.socket)}, onListen() {} }, ${handler});`;
    await writeFile(path.join(bare.#folder, 'index.ts'), source);
    return bare;
  }

  get pid(): number {
    return this.#child?.pid as number;
  }

  /** Milliseconds from the start of the process to its first response. */
  async start(): Promise<number> {
    await rm(this.socket, { force: true });
    const begun = performance.now();
    const permissions = [`--allow-read=${this.#folder}`, `--allow-write=${this.#folder}`, '--allow-net'];
    const args = ['run', '--no-prompt', '--cached-only', ...permissions, path.join(this.#folder, 'index.ts')];
    const env = { ...process.env, DENO_DIR: path.join(this.#folder, 'cache'), DENO_NO_UPDATE_CHECK: '1' };
    this.#child = spawn(installedDeno(), args, { stdio: 'ignore', env });
    while (!(await this.#answers())) {
      if (performance.now() - begun > PATIENCE_MS) throw new Error('the process of deno run did not respond');
      await pause(POLL_MS);
    }
    return performance.now() - begun;
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    const ended = new Promise((resolve) => child.once('close', resolve));
    child.kill('SIGKILL');
    await ended;
    this.#child = undefined;
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const probe = request({ socketPath: this.socket, path: '/', agent: false }, (answer) => {
        answer.resume().once('end', () => resolve(answer.statusCode === 200));
      });
      probe.once('error', () => resolve(false));
      probe.end();
    });
  }
}
