/**
 * One Deno process that serves one version of one function. In: where its source is and its environment. Out: a Unix
 * socket to call, until it is told to end, uses too much, or dies. Started by `function.ts`; looked at by
 * `watchdog.ts`.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { Pool } from 'undici';
import type { Account } from './account.js';
import { type Deno, isolateArguments, startDeno } from './deno.js';
import type { Launched } from './launcher/launcher.js';
import type { FunctionLimits } from './limits.js';
import { LineSplitter, type LogLine, OutputMeter } from './logs.js';
import { removeFolder } from './removed-folder.js';

export interface IsolateOptions {
  deno: Deno;
  /** The compiled `runtime/bootstrap.js`, where the isolate's account can read it. */
  bootstrap: string;
  /** A folder in which the isolate gets one for its sockets. */
  sockets: string;
  /** Answers what the isolate asks of the public URL. */
  gateway: RequestListener;
  /** The origin that its gateway's socket stands for, and the path there. */
  publicPlace: { origin: string; path: string };
  blockedAddresses: readonly string[];
  /** Returns the machine's addresses at the start of the isolate. */
  ownAddresses(): readonly string[];
  source: string;
  cache: string;
  account: Account | undefined;
  environment: Record<string, string>;
  limits: FunctionLimits;
  log(level: LogLine['level'], message: string): void;
  onEnd(isolate: Isolate): void;
}

/** Why an isolate was ended by us, for those whose requests it took along. */
export type EndReason = 'cpu' | 'memory' | 'crash' | 'asked';

/** The function's own fault. */
export class BootFailed extends Error {}

/** Not now, and not for a fault of the function's. */
export class Unavailable extends Error {
  constructor(
    readonly code: 'BOOT_ERROR' | 'TOO_MANY_REQUESTS' | 'NO_ROOM' | 'PROJECT_SHARE' | 'ACCOUNT_SHARE',
    message: string,
    readonly retryAfterSeconds: number,
  ) {
    super(message);
  }
}

/** The error of a call when all functions together exceed a share or the machine's memory. */
export const noRoom = () => new Unavailable('NO_ROOM', 'Functions use too much memory together now', 2);

/** To the public URL: each is a descriptor of ours. */
const CONNECTIONS_PER_CALL = 2;

let count = 0;

export class Isolate {
  readonly socketPath: string;
  /** To its socket. How long a call may take is for whoever makes it to say. */
  readonly connections: Pool;
  readonly serving: Promise<void>;
  readonly ended: Promise<void>;
  /** Requests under way. */
  active = 0;
  lastUsed = performance.now();
  endReason: EndReason | undefined;
  /** Milliseconds of CPU that it may still use. */
  cpuCredit: number;
  readonly #folder: string;
  readonly #gateway: Server;
  readonly #gatewayPath: string;
  readonly #process: Launched;
  readonly #options: IsolateOptions;
  #draining = false;
  #gaveWay = false;

  constructor(options: IsolateOptions) {
    this.#options = options;
    this.cpuCredit = options.limits.cpuMillisecondsAtMost;
    this.#folder = path.join(options.sockets, (++count).toString(36));
    this.socketPath = path.join(this.#folder, 'own', 's');
    this.connections = new Pool('http://isolate', {
      socketPath: this.socketPath,
      connections: options.limits.concurrency,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#gatewayPath = path.join(this.#folder, 'g');
    this.#makeFolders();
    const token = randomBytes(16).toString('hex');
    this.#process = this.#start(token);
    // Long before the isolate looks for it; where it can't be opened there is an isolate to end.
    this.#gateway = this.#openGateway();
    this.ended = this.#process.closed.then(
      ({ code, signal }) => this.#onEnd(signal ?? `exit code ${code}`),
      ({ message }: Error) => this.#onEnd(message),
    );
    this.serving = this.#untilItServes(token);
    // Whoever started it awaits it too; without this a failure before that would end the program.
    this.serving.catch(() => undefined);
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  begin(): void {
    this.active += 1;
    const { cpuMillisecondsAtMost, cpuMillisecondsPerRequest } = this.#options.limits;
    this.cpuCredit = Math.min(cpuMillisecondsAtMost, this.cpuCredit + cpuMillisecondsPerRequest);
  }

  finish(): void {
    this.active -= 1;
    this.lastUsed = performance.now();
    if (this.#draining && this.active === 0) this.end('asked');
  }

  /** Deno lets it write where its sockets are: a file or a folder there in place of one would fill the disk. */
  async keepsToSockets(): Promise<boolean> {
    const paths = [this.socketPath, this.#gatewayPath];
    const kept = paths.map((place) =>
      lstat(place).then(
        (found) => found.isSocket(),
        () => true,
      ),
    );
    return (await Promise.all(kept)).every(Boolean);
  }

  /** No more requests will come: it ends after the last that it has. */
  drain(): void {
    this.#draining = true;
    if (this.active === 0) this.end('asked');
  }

  end(reason: EndReason): void {
    this.endReason ??= reason;
    this.#process.kill();
    for (const output of [this.#process.stdout, this.#process.stderr]) output.resume();
  }

  /** Others use memory too: that it could not start then is no fault of the function's. */
  endForRoom(): void {
    this.#gaveWay = true;
    this.end('memory');
  }

  /** Only its own account enters, and makes files only where it answers itself. */
  #makeFolders(): void {
    const { account } = this.#options;
    const own = path.dirname(this.socketPath);
    mkdirSync(this.#folder, { mode: 0o700 });
    mkdirSync(own, { mode: 0o700 });
    if (!account) return;
    chownSync(this.#folder, 0, account.gid);
    chmodSync(this.#folder, 0o710);
    chownSync(own, account.uid, account.gid);
  }

  /** Deno lets it replace a socket that it may connect to: what it does to this one meets no other isolate. */
  #openGateway(): Server {
    const server = createServer((incoming, outgoing) => {
      // Deno takes the socket for a proxy, and names the whole address.
      incoming.url = (incoming.url as string).replace(/^http:\/\/[^/]*/, '');
      this.#options.gateway(incoming, outgoing);
    });
    server.maxConnections = CONNECTIONS_PER_CALL * this.#options.limits.concurrency;
    server.on('error', () => this.end('crash'));
    // Only where the folder is not the isolate's own: what has another account's name there is this socket for sure.
    const open = () => this.#options.account && chmodSync(this.#gatewayPath, 0o666);
    return server.listen(this.#gatewayPath, open);
  }

  #start(token: string): Launched {
    const { deno, bootstrap, source, cache, account, limits, blockedAddresses, publicPlace, environment } =
      this.#options;
    const ownAddresses = this.#options.ownAddresses();
    const { socketPath: socket } = this;
    const folders = { source, cache, socket, gateway: this.#gatewayPath };
    const args = isolateArguments(bootstrap, folders, { ...limits, blockedAddresses, ownAddresses });
    const entry = `file://${path.join(source, 'index.ts')}`;
    const configuration = { token, socket, gateway: this.#gatewayPath, publicPlace, entry, environment };
    const readable = [bootstrap, this.#folder];
    const writable = [path.dirname(socket)];
    const input = `${JSON.stringify(configuration)}\n`;
    return startDeno(deno, args, { cwd: source, cache, account, readable, writable, input });
  }

  #onEnd(how: string): void {
    const { log, onEnd } = this.#options;
    this.endReason ??= 'crash';
    if (this.endReason === 'crash') log('system', `the isolate ended (${how})`);
    this.connections.destroy().catch(() => undefined);
    this.#gateway.close();
    this.#gateway.closeAllConnections();
    if (!removeFolder(this.#folder)) log('system', 'what the isolate wrote could not be removed');
    onEnd(this);
  }

  async #untilItServes(token: string): Promise<void> {
    const { limits, log } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onLine = (line: string) => {
      if (line === `${token} serves`) resolve();
      else if (line === `${token} failed`) reject(new BootFailed('it failed while it started'));
      else if (line !== '') log('info', line);
    };
    this.#read(this.#process.stdout, onLine, token);
    const complaints: string[] = [];
    this.#read(this.#process.stderr, (line) => {
      if (complaints.length < 20) complaints.push(line);
      log('error', line);
    });
    this.#process.closed.then(
      () => reject(new BootFailed('it ended while it started')),
      () => reject(new Unavailable('BOOT_ERROR', 'Function could not be started now', 1)),
    );
    const timer = setTimeout(() => reject(new BootFailed('it did not serve in time')), limits.bootMilliseconds);
    try {
      await promise;
    } catch (error) {
      this.end('asked');
      await this.ended;
      if (error instanceof Unavailable) throw error;
      if (this.#gaveWay) throw noRoom();
      throw new BootFailed(complaints.join('\n') || (error as Error).message);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Reads only so much a second: what writes more waits, and not we. The line that begins with `mark` is never dropped.
   */
  #read(stream: Readable, onLine: (line: string) => void, mark?: string): void {
    const { logLineBytes, logLines, logBytesPerSecond } = this.#options.limits;
    const onDropped = (count: number) =>
      this.#options.log('system', `${count} lines were dropped: too many were written at once`);
    const lines = new LineSplitter(
      { longest: logLineBytes * 2, most: logLines, ...(mark && { mark }) },
      onLine,
      onDropped,
    );
    const meter = new OutputMeter(logBytesPerSecond);
    stream.on('data', (chunk: Buffer) => {
      const pause = meter.charge(chunk.length, lines.push(chunk), performance.now());
      // What an ended isolate has left in its pipes is little, and its end waits for it.
      if (pause === 0 || this.endReason !== undefined) return;
      stream.pause();
      setTimeout(() => stream.resume(), pause).unref();
    });
    stream.on('end', () => lines.end());
  }
}
