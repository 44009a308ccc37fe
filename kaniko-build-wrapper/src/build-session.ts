/**
 * The environment in which the commands of one build run: folders, account, egress proxy, log and timeout. In:
 * commands. Out: their exit, and errors with a message for the tenant.
 */
import { chownSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Account, accountOf } from '@slipway/sandbox';
import { BuildLog } from './build-log.js';
import { type ConnectionFailure, type EgressProxy, startEgressProxy } from './egress/proxy.js';
import { ProjectCache } from './project-cache.js';
import { type BuildEvents, BuildFailed, type BuildRequest, Refused, type Step } from './request.js';
import { Ended, runSealed, type StepCommand } from './sealed-command.js';
import { secretValuesOf } from './secret-values.js';

/** Maximum bytes of the path of a Unix socket, which is the kernel's limit. */
const SOCKET_PATH_BYTES = 107;
const UNREACHED_SHOWN = 20;

export interface Folders {
  /** The working tree. */
  source: string;
  home: string;
  /** The folder with links to the programs of the toolchain. */
  bin: string;
  /** The egress proxy's socket. */
  socket: string;
  passwd: string;
}

export class BuildSession {
  readonly log: BuildLog;
  readonly folders: Folders;
  readonly account: Account | undefined;
  readonly cache: ProjectCache;
  /** Aborted at the timeout of the build, and when it is stopped. */
  readonly signal: AbortSignal;
  readonly #timeout: AbortSignal;
  readonly #unreached = new Set<string>();
  #proxy: EgressProxy | undefined;
  #step: Step | undefined;

  constructor(
    readonly request: BuildRequest,
    private readonly events: BuildEvents,
    private readonly aborted: AbortSignal,
  ) {
    const { env, credentials, limits } = request;
    const secrets = [...secretValuesOf(env), credentials.token ?? '', credentials.deployKey ?? ''];
    this.log = new BuildLog(secrets, limits.logBytes, (section, text) => events.log(section, text));
    mkdirSync(request.folders.work, { recursive: true, mode: 0o700 });
    const work = realpathSync(request.folders.work);
    const inWork = (name: string) => path.join(work, name);
    this.folders = {
      source: inWork('source'),
      home: inWork('home'),
      bin: inWork('bin'),
      socket: inWork('egress.sock'),
      passwd: inWork('passwd'),
    };
    this.account = request.account ?? accountOf(request.ref);
    this.cache = new ProjectCache(request.folders.cache, this.account);
    this.#timeout = AbortSignal.timeout(limits.milliseconds);
    this.signal = AbortSignal.any([aborted, this.#timeout]);
  }

  async open(): Promise<void> {
    await this.log.prepare();
    const { source, home, socket, passwd } = this.folders;
    if (Buffer.byteLength(socket) > SOCKET_PATH_BYTES) throw new Error(`the path ${socket} is too long for a socket`);
    for (const folder of [source, home]) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { mode: 0o700 });
      this.own(folder);
    }
    const { uid, gid } = this.account ?? { uid: 0, gid: 0 };
    writeFileSync(passwd, `build:x:${uid}:${gid}::${home}:/bin/sh\n`, { mode: 0o644 });
    this.#proxy = await startEgressProxy(socket, this.request.reach, (target, failure) => this.#show(target, failure));
    this.own(socket);
  }

  async close(): Promise<void> {
    await this.#proxy?.close();
    this.log.flush();
  }

  /** Makes the account of the build the owner of a file. */
  own(place: string): void {
    if (this.account) chownSync(place, this.account.uid, this.account.gid);
  }

  begin(step: Step): void {
    if (this.#step === step) return;
    this.#step = step;
    this.log.begin(step);
    this.events.step(step);
  }

  /** Runs a command until it exits. Throws BuildFailed if the exit code is not 0. */
  async run(step: StepCommand, onOutput = (bytes: Buffer) => this.log.output(bytes)): Promise<void> {
    const { limits, folders } = this.request;
    const { socket, passwd } = this.folders;
    const disk = [folders.work, this.cache.folder];
    const options = { account: this.account, socket, passwd, disk, limits };
    const code = await runSealed({ ...step, ...options }, onOutput, this.signal);
    this.log.flush();
    if (code !== 0)
      throw new BuildFailed(
        this.#step ?? 'Cloning',
        code,
        `${step.shown} ended with exit code ${code}. The log has its output.`,
      );
  }

  /** Returns the error for the caller. If the error is for the tenant, the log gets its message too. */
  explained(error: unknown): unknown {
    if (this.aborted.aborted) return this.aborted.reason;
    const failure = this.#failureOf(error);
    if (failure === undefined) return error;
    this.log.line(failure.message);
    return failure;
  }

  #failureOf(error: unknown): BuildFailed | undefined {
    if (error instanceof BuildFailed) return error;
    const seconds = this.request.limits.milliseconds / 1000;
    if (this.#timeout.aborted) return this.#failed(`The build took longer than ${seconds} seconds.`);
    if (error instanceof Ended) return this.#failed(`The step ${this.#step} was ended, as ${error.message}.`);
    return error instanceof Refused ? this.#failed(error.message) : undefined;
  }

  #failed(message: string): BuildFailed {
    return new BuildFailed(this.#step ?? 'Cloning', null, message);
  }

  #show(target: string, { isRefused, why }: ConnectionFailure): void {
    if (this.#unreached.has(target) || this.#unreached.size >= UNREACHED_SHOWN) return;
    this.#unreached.add(target);
    const shown = JSON.stringify(target.slice(0, 200));
    this.log.line(
      isRefused ? `Slipway refused a connection to ${shown}: ${why}.` : `Slipway can not reach ${shown}: ${why}.`,
    );
  }
}
