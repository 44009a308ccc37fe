/**
 * One Deno process that serves one version of a function. In: its source folder and environment. Out: a Unix socket to
 * call, until the process is ended, exceeds a limit, or crashes. Started by `function.ts`; monitored by `watchdog.ts`.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { type Account, type Launched, removeFolder } from '@slipway/sandbox';
import { Pool } from 'undici';
import { type Deno, isolateArguments, startDeno } from './deno.js';
import type { FunctionLimits } from './limits.js';
import { LineSplitter, type LogLine, OutputMeter } from './logs.js';

export interface IsolateOptions {
  deno: Deno;
  /** Compiled `runtime/bootstrap.js`, at a path that the isolate's account can read. */
  bootstrap: string;
  /** Folder for the isolate's own folder with its sockets. */
  sockets: string;
  /** Serves the isolate's requests to the public URL. */
  gateway: RequestListener;
  /** Origin and path to which the gateway's socket maps. */
  publicPlace: { origin: string; path: string };
  /** Returns the machine's addresses at the start of the isolate. */
  deniedNetworks: readonly string[];
  ownAddresses(): readonly string[];
  source: string;
  cache: string;
  account: Account | undefined;
  environment: Record<string, string>;
  limits: FunctionLimits;
  log(level: LogLine['level'], message: string): void;
  onEnd(isolate: Isolate): void;
}

/** Reason why the platform ended an isolate, for the callers of its requests. */
export type EndReason = 'cpu' | 'memory' | 'crash' | 'asked';

/** Error of a function that failed to start by its own fault. */
export class BootFailed extends Error {}

/** Temporary error that is not the function's fault. */
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

/** Maximum connections to the public URL for each call of a function; each uses a file descriptor of the platform. */
const CONNECTIONS_PER_CALL = 2;

let count = 0;

export class Isolate {
  readonly socketPath: string;
  /** Connections to its socket. The caller sets the timeout of a call. */
  readonly connections: Pool;
  readonly serving: Promise<void>;
  readonly ended: Promise<void>;
  /** Number of requests in flight. */
  active = 0;
  lastUsed = performance.now();
  endReason: EndReason | undefined;
  /** Milliseconds of processor time that the isolate may still use. */
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
    // Ready long before the isolate connects. An error ends the isolate.
    this.#gateway = this.#openGateway();
    this.ended = this.#process.closed.then(
      ({ code, signal }) => this.#onEnd(signal ?? `exit code ${code}`),
      ({ message }: Error) => this.#onEnd(message),
    );
    this.serving = this.#untilItServes(token);
    // The starter awaits it too; without this handler an early rejection would end the program.
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

  /** True if only sockets are at its writable paths. Deno allows a file or folder there, which could fill the disk. */
  async keepsToSockets(): Promise<boolean> {
    const paths = [this.socketPath, this.#gatewayPath];
    const areSockets = paths.map((place) =>
      lstat(place).then(
        (found) => found.isSocket(),
        () => true,
      ),
    );
    return (await Promise.all(areSockets)).every(Boolean);
  }

  /** Ends the isolate after its requests in flight; it gets no new ones. */
  drain(): void {
    this.#draining = true;
    if (this.active === 0) this.end('asked');
  }

  end(reason: EndReason): void {
    this.endReason ??= reason;
    this.#process.kill();
    for (const output of [this.#process.stdout, this.#process.stderr]) output.resume();
  }

  /** Ends it to free memory for others. If it was starting, this is no error of the function. */
  endForRoom(): void {
    this.#gaveWay = true;
    this.end('memory');
  }

  /** Creates its folder, which only its own account can enter, and write to only where it serves. */
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

  /** Opens its own gateway socket. Deno allows an isolate to replace a socket, so no other isolate uses this one. */
  #openGateway(): Server {
    const server = createServer((incoming, outgoing) => {
      // Deno treats the socket as a proxy, and sends the whole URL.
      incoming.url = (incoming.url as string).replace(/^http:\/\/[^/]*/, '');
      this.#options.gateway(incoming, outgoing);
    });
    server.maxConnections = CONNECTIONS_PER_CALL * this.#options.limits.concurrency;
    server.on('error', () => this.end('crash'));
    // Needed only if the folder is another account's, where the name can only be this socket's.
    const open = () => this.#options.account && chmodSync(this.#gatewayPath, 0o666);
    return server.listen(this.#gatewayPath, open);
  }

  #start(token: string): Launched {
    const { deno, bootstrap, source, cache, account, limits, deniedNetworks, publicPlace, environment } = this.#options;
    const ownAddresses = this.#options.ownAddresses();
    const { socketPath: socket } = this;
    const folders = { source, cache, socket, gateway: this.#gatewayPath };
    const args = isolateArguments(bootstrap, folders, { ...limits, deniedNetworks, ownAddresses });
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

  /** Reads output at a limited rate, so that a fast writer waits. Never drops the line that begins with `mark`. */
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
      const pause = meter.charge(chunk.length, lines.push(chunk));
      // An ended isolate has little left in its pipes, and its end waits until they are read.
      if (pause === 0 || this.endReason !== undefined) return;
      stream.pause();
      setTimeout(() => stream.resume(), pause).unref();
    });
    stream.on('end', () => lines.end());
  }
}
