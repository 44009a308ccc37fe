/**
 * Starts processes from a small launcher process. Otherwise the kernel would copy the page tables of the data plane for
 * each start: 5 ms for each 100 MiB of its memory, in which it serves no request. In: commands. Out: their exits and
 * output. The launcher process is started on demand, and again after it ended. When it ends, all processes that it
 * started end too. If it does not end on request, it is killed.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { systemProgram } from '../account.js';
import { type Command, type Exit, type News, type Order, OUTPUTS, type Output } from './messages.js';

/** Variables that set the file descriptor of the channel of `fork`: the one after standard input, output and error. */
const CHANNEL = ['NODE_CHANNEL_FD=3', 'NODE_CHANNEL_SERIALIZATION_MODE=advanced'];
const ENV = systemProgram('env') ?? 'env';
const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
/** Milliseconds after which a process that does not exit by itself is killed. */
const PATIENCE_MS = 5_000;
/** Options of Node that limit the heap of the launcher process, because it only forwards messages. */
const NODE_FLAGS = ['--max-old-space-size=64', '--max-semi-space-size=1'];

export class Launcher {
  #process: ChildProcess | undefined;
  #count = 0;
  #isClosed = false;
  readonly #launched = new Map<number, Launched>();

  /** `within` is a prefix of the launcher process' command, whose effects apply to all processes that it starts. */
  constructor(
    private readonly log: Logger,
    private readonly within: readonly string[] = [],
    private readonly patienceMilliseconds = PATIENCE_MS,
  ) {}

  start(command: Command): Launched {
    const id = ++this.#count;
    // A process without a channel has ended or never started; both are reported elsewhere.
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

  /** Starts the launcher process early, so that the first command need not wait. */
  warmUp(): void {
    try {
      this.#process ??= this.#open();
    } catch (error) {
      this.#complain((error as Error).message);
    }
  }

  /** Ends all processes, and makes later calls fail to start any. */
  close(): void {
    this.#isClosed = true;
    if (this.#process?.connected) this.#process.disconnect();
  }

  #open(): ChildProcess {
    if (this.#isClosed) throw new Error('the launcher is closed');
    const node = [process.execPath, ...NODE_FLAGS];
    const [execPath, ...execArgv] = this.within.length > 0 ? [...this.within, ENV, ...CHANNEL, ...node] : node;
    const child = fork(MAIN, {
      execPath,
      execArgv,
      env: {},
      serialization: 'advanced',
      // Separate pipes: a reader of this process' own would wait for the end of both.
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

/** A process that was requested from the launcher. */
export class Launched {
  /** Undefined before its start and after its exit. */
  pid: number | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves once its output was read to the end. Rejects if it did not start or the launcher was lost. */
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
    // The caller handles a rejection; there may be no listener any longer.
    this.closed.catch(() => undefined);
  }

  /** Kills the launcher, and all that it started, if the process does not exit in time. Does nothing after the exit. */
  kill(): void {
    if (this.#hasExited) return;
    this.send({ order: 'kill', id: this.id });
    this.#patience ??= setTimeout(this.giveUp, this.patienceMilliseconds).unref();
  }

  hear(news: News): void {
    if (news.news === 'started') this.pid = news.pid;
    else if (news.news === 'output') this[news.output].push(news.chunk);
    else if (news.news === 'exited') this.#onExit();
    else this.#over(news);
  }

  #onExit(): void {
    this.#hasExited = true;
    this.pid = undefined;
    clearTimeout(this.#patience);
  }

  #over(news: Extract<News, { news: 'closed' | 'failed' }>): void {
    this.#onExit();
    for (const output of OUTPUTS) this[output].push(null);
    if (news.news === 'closed') this.#end.resolve({ code: news.code, signal: news.signal });
    else this.#end.reject(new Error(news.message));
  }

  #outputOf(output: Output): Readable {
    // Reads one chunk ahead of the consumer, because each chunk is a message.
    return new Readable({ highWaterMark: 1, read: () => this.send({ order: 'read', id: this.id, output }) });
  }
}
