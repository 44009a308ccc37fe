/** `deno run` of a file, with nothing around it: as one would start a function by hand. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { installedDeno } from '@slipway/dataplane/functions/deno.js';

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

  /** `handler` is the source of what is given to Deno.serve. */
  static async make(handler: string): Promise<BareDeno> {
    const bare = new BareDeno(await mkdtemp(path.join(tmpdir(), 'slipway-bare-')));
    const source = `Deno.serve({ path: ${JSON.stringify(bare.socket)}, onListen() {} }, ${handler});`;
    await writeFile(path.join(bare.#folder, 'index.ts'), source);
    return bare;
  }

  get pid(): number {
    return this.#child?.pid as number;
  }

  /** Milliseconds from its start to its first answer. */
  async start(): Promise<number> {
    await rm(this.socket, { force: true });
    const begun = performance.now();
    const permissions = [`--allow-read=${this.#folder}`, `--allow-write=${this.#folder}`, '--allow-net'];
    const args = ['run', '--no-prompt', '--cached-only', ...permissions, path.join(this.#folder, 'index.ts')];
    const env = { ...process.env, DENO_DIR: path.join(this.#folder, 'cache'), DENO_NO_UPDATE_CHECK: '1' };
    this.#child = spawn(installedDeno(), args, { stdio: 'ignore', env });
    while (!(await this.#answers())) {
      if (performance.now() - begun > PATIENCE_MS) throw new Error('a bare deno run did not answer');
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
      const asked = request({ socketPath: this.socket, path: '/', agent: false }, (answer) => {
        answer.resume().once('end', () => resolve(answer.statusCode === 200));
      });
      asked.once('error', () => resolve(false));
      asked.end();
    });
  }
}
