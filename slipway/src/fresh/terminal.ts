/**
 * A shell into which a test types code blocks, one after another, as a reader pastes them. In: a shell's process. Out:
 * the output and the status of each block. Used by the test on a fresh machine.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';

const MOST_OUTPUT = 1_000_000;
/** Maximum milliseconds of a block: more than a first start takes on a slow machine. */
const PATIENCE_MS = 15 * 60_000;

export interface Ran {
  output: string;
  status: number;
}

export class Terminal {
  readonly #shell: ChildProcess;
  #printed = '';
  #ended = false;
  #listeners = new Set<() => void>();

  constructor(shell: ChildProcess) {
    this.#shell = shell;
    for (const stream of [shell.stdout, shell.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#printed = (this.#printed + text).slice(-MOST_OUTPUT);
        this.#notify();
      });
    }
    shell.on('close', () => {
      this.#ended = true;
      this.#notify();
    });
    shell.stdin?.on('error', () => {});
  }

  /** Runs a block to its end. */
  async run(code: string): Promise<Ran> {
    const end = this.#type((name) => `${sourced(code)} </dev/null\nprintf '\\n%s %s\\n' ${name} $?\n`);
    const { index, 1: status } = await this.#until(new RegExp(`\\n${end} (\\d+)\\n`));
    return { output: this.#printed.slice(0, index), status: Number(status) };
  }

  /** Leaves a block running once it has printed `ready`. Throws if the block ends earlier. */
  async runInBackground(code: string, ready: string): Promise<string> {
    const end = this.#type((name) => `{ ${sourced(code)} </dev/null; printf '\\n%s\\n' ${name}; } &\n`);
    const plain = ready.replaceAll(/[^\w ]/g, '\\$&');
    const { index, 0: found } = await this.#until(new RegExp(`${plain}|\\n${end}\\n`));
    const output = this.#printed.slice(0, index);
    if (found !== ready) throw new Error(`it ended before it was ready:\n${output}`);
    return output;
  }

  /** Types the line that `line` makes of a random word. The shell prints that word at the end. Returns the word. */
  #type(line: (end: string) => string): string {
    const end = `ended-${randomBytes(6).toString('hex')}`;
    this.#printed = '';
    this.#shell.stdin?.write(line(end));
    return end;
  }

  async #until(pattern: RegExp): Promise<RegExpExecArray> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = pattern.exec(this.#printed);
      if (found) return found;
      const output = this.#printed.slice(-5_000);
      if (this.#ended) throw new Error(`the terminal ended:\n${output}`);
      if (performance.now() > deadline) throw new Error(`nothing matches ${pattern} in:\n${output}`);
      await this.#change(deadline - performance.now());
    }
  }

  /** Resolves with the next output, or after `ms`. */
  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#listeners.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#listeners.add(done);
    });
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Runs the block with `source`, so that variables stay and the block's commands do not read the next typed line. */
const sourced = (code: string) => `source <(base64 --decode <<<${Buffer.from(code).toString('base64')})`;
