/**
 * Starts processes from a small one, because the kernel copies the page tables of whoever starts another: 5 ms for each
 * 100 MiB that the data plane has in memory, in which it answers nobody. In: commands. Out: their ends and what they
 * wrote. The small process is started when it is first needed, and again after its end, which takes along all that it
 * started. One that does not do as it is told is ended.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { type Command, type Exit, type News, type Order, OUTPUTS, type Output } from './messages.js';

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
/** For an end that was asked for. */
const PATIENCE_MS = 5_000;
/** It keeps nothing but what it is just handing on. */
const NODE_FLAGS = ['--max-old-space-size=64', '--max-semi-space-size=1'];

export class Launcher {
  #process: ChildProcess | undefined;
  #count = 0;
  #isClosed = false;
  readonly #launched = new Map<number, Launched>();

  constructor(
    private readonly log: Logger,
    private readonly patienceMilliseconds = PATIENCE_MS,
  ) {}

  start(command: Command): Launched {
    const id = ++this.#count;
    // Who hears nothing any more has ended, or has no channel as it never began: both are told of.
    const send = (order: Order) => void this.#process?.send?.(order, () => undefined);
    const launched = new Launched(id, send, () => this.#process?.kill('SIGKILL'), this.patienceMilliseconds);
    this.#launched.set(id, launched);
    const forget = () => this.#launched.delete(id);
    launched.closed.then(forget, forget);
    try {
      this.#process ??= this.#open();
      send({ order: 'start', id, ...command });
    } catch (error) {
      launched.hear({ news: 'failed', id, message: (error as Error).message });
    }
    return launched;
  }

  /** The first to start something would wait for the small process. */
  warmUp(): void {
    try {
      this.#process ??= this.#open();
    } catch (error) {
      this.#complain((error as Error).message);
    }
  }

  /** Ends all processes, and starts no more. */
  close(): void {
    this.#isClosed = true;
    if (this.#process?.connected) this.#process.disconnect();
  }

  #open(): ChildProcess {
    if (this.#isClosed) throw new Error('no process is started any more');
    const child = fork(MAIN, {
      execArgv: NODE_FLAGS,
      env: {},
      serialization: 'advanced',
      // Not those of this process: whoever waits for their end would wait for two.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    child.on('message', (news: News) => this.#launched.get(news.id)?.hear(news));
    child.stderr?.on('data', (chunk: Buffer) => this.#complain(chunk.toString()));
    child.once('error', ({ message }) => this.#over(child, message));
    child.once('exit', (code, signal) => this.#over(child, signal ?? `exit code ${code}`));
    return child;
  }

  #complain(why: string): void {
    this.log.error({ why }, 'function launcher failed');
  }

  #over(child: ChildProcess, why: string): void {
    if (this.#process !== child) return;
    this.#process = undefined;
    if (!this.#isClosed) this.#complain(why);
    for (const [id, launched] of this.#launched) {
      launched.hear({ news: 'failed', id, message: 'what starts processes has ended' });
    }
  }
}

/** A process that was asked for. */
export class Launched {
  /** Unknown before it runs and after its end. */
  pid: number | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Once its outputs have been read to their ends; rejects where it did not start, or is lost. */
  readonly closed: Promise<Exit>;
  readonly #end = Promise.withResolvers<Exit>();
  #patience: NodeJS.Timeout | undefined;
  #hasExited = false;

  constructor(
    private readonly id: number,
    private readonly send: (order: Order) => void,
    private readonly giveUp: () => void,
    private readonly patienceMilliseconds: number,
  ) {
    this.stdout = this.#outputOf('stdout');
    this.stderr = this.#outputOf('stderr');
    this.closed = Promise.all([this.#end.promise, finished(this.stdout), finished(this.stderr)]).then(([exit]) => exit);
    // Who asked for it hears of it; nobody may listen any more.
    this.closed.catch(() => undefined);
  }

  /** Ends the launcher, and all that it started, if the process does not exit in time. Does nothing after the exit. */
  kill(): void {
    if (this.#hasExited) return;
    this.send({ order: 'kill', id: this.id });
    this.#patience ??= setTimeout(this.giveUp, this.patienceMilliseconds).unref();
  }

  hear(news: News): void {
    if (news.news === 'started') this.pid = news.pid;
    else if (news.news === 'output') this[news.output].push(news.chunk);
    else if (news.news === 'exited') this.#gone();
    else this.#over(news);
  }

  #gone(): void {
    this.#hasExited = true;
    this.pid = undefined;
    clearTimeout(this.#patience);
  }

  #over(news: Extract<News, { news: 'closed' | 'failed' }>): void {
    this.#gone();
    for (const output of OUTPUTS) this[output].push(null);
    if (news.news === 'closed') this.#end.resolve({ code: news.code, signal: news.signal });
    else this.#end.reject(new Error(news.message));
  }

  #outputOf(output: Output): Readable {
    // One chunk ahead of who reads, however small: each is a message.
    return new Readable({ highWaterMark: 1, read: () => this.send({ order: 'read', id: this.id, output }) });
  }
}
