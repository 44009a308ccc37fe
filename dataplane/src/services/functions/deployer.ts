/**
 * Deploys functions: one deploy at a time for each function, and a few for each project. Any further deploy returns
 * `busy` without waiting. In: source and version, from the operator. Out: success, or the errors of the code. A deploy
 * of the version that is already served changes nothing, so requests can be repeated.
 */
import path from 'node:path';
import { ConcurrencyLimit } from '@slipway/program';
import { accountOf, type Launched } from '@slipway/sandbox';
import type { Logger } from 'pino';
import { cleanCache } from './cache.js';
import { CacheFull, checkSource, type SourceProblem } from './check.js';
import type { Deno } from './deno.js';
import { type EdgeFunction, keyOf } from './function.js';
import { BootFailed, Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import { type LogLine, newestOf, type ProjectLogLine } from './logs.js';
import type { Shares } from './shares.js';
import { type Deployment, digestOf, type FunctionStore, isStorable } from './store.js';
import type { UnreadableFunctions } from './unreadable.js';
import type { Watchdog } from './watchdog.js';

export interface DeployRequest {
  ref: string;
  name: string;
  version: number;
  code: string;
  verifyJwt: boolean;
}

export type DeployOutcome =
  | { state: 'ready' }
  /** The deploy was rejected; the former version is still served. */
  | { state: 'refused'; problems: SourceProblem[] }
  /** `lost`: no version is served any longer. */
  | { state: 'busy'; message: string; lost?: true };

export interface DeployerOptions {
  store: FunctionStore;
  functions: Map<string, EdgeFunction>;
  unreadable: UnreadableFunctions;
  /** True if the registry has the project. Functions are started only with the project's keys. */
  knows(ref: string): boolean;
  make(ref: string, name: string, deployment: Deployment): EdgeFunction;
  deno: Deno;
  limits: FunctionLimits;
  shares: Shares;
  watchdog: Watchdog;
  log: Logger;
}

export class Deployer {
  readonly #options: DeployerOptions;
  readonly #queues = new Map<string, Promise<unknown>>();
  /** Limit of deploys of all projects; `Shares` limits those of one. */
  readonly #underWay: ConcurrencyLimit;

  constructor(options: DeployerOptions) {
    this.#options = options;
    this.#underWay = new ConcurrencyLimit({ most: options.limits.deploys });
  }

  deploy(request: DeployRequest): Promise<DeployOutcome> {
    if (!isStorable(request.ref, request.name) || !Number.isSafeInteger(request.version)) {
      throw new Error('the project, name or version is not valid');
    }
    const key = keyOf(request.ref, request.name);
    // A caller that timed out repeats the request; queued ones would accumulate sources in memory.
    if (this.#queues.has(key)) return Promise.resolve({ state: 'busy', message: 'the function is being deployed' });
    return this.#inTurn(key, () => this.#deploy(request));
  }

  remove(ref: string, name: string): Promise<void> {
    const { functions, store, unreadable } = this.#options;
    return this.#inTurn(keyOf(ref, name), async () => {
      if (!isStorable(ref, name)) return;
      unreadable.forget(ref, name);
      const deployed = functions.get(keyOf(ref, name));
      functions.delete(keyOf(ref, name));
      await deployed?.remove();
      await store.remove(ref, name);
    });
  }

  deployed(): { ref: string; name: string }[] {
    const { functions, unreadable } = this.#options;
    return [...[...functions.values()].map(({ ref, name }) => ({ ref, name })), ...unreadable.all()];
  }

  /** Returns undefined if no function of that name is deployed. */
  logs(ref: string, name: string, after: number, limit: number): LogLine[] | undefined {
    return this.#options.functions.get(keyOf(ref, name))?.log.read(after, limit);
  }

  /** Returns the newest lines of all functions of the project, oldest first. */
  logsOfAll(ref: string, limit: number): ProjectLogLine[] {
    const own = [...this.#options.functions.values()].filter((each) => each.ref === ref);
    return newestOf(own, limit);
  }

  async #deploy(request: DeployRequest): Promise<DeployOutcome> {
    const { ref, name, version, code, verifyJwt } = request;
    const { functions, store, knows, shares, unreadable } = this.#options;
    const loss = unreadable.report(ref, name);
    if (loss !== undefined) return { state: 'busy', message: loss, lost: true };
    const deployment = { version, verifyJwt, digest: digestOf(code) };
    const served = functions.get(keyOf(ref, name));
    if (served?.deployment.version === version && served.deployment.digest === deployment.digest) {
      if (served.deployment.verifyJwt !== verifyJwt) {
        served.deployment = deployment;
        await store.commit(ref, name, deployment);
      }
      return { state: 'ready' };
    }
    if (!knows(ref)) return { state: 'busy', message: 'the data plane does not know the project yet' };
    const full = this.#fullFor(ref);
    if (full !== undefined) return { state: 'busy', message: full };
    const end = shares.begin('deploys', ref);
    return this.#underWay.run(ref, () => this.#replace(served, request, deployment)).finally(end);
  }

  #fullFor(ref: string): string | undefined {
    const { shares, limits } = this.#options;
    const { deploysOfProject, deploysOfAccount, deploys } = limits;
    const after = 'functions are being deployed, and this one after them';
    const share = shares.full('deploys', ref);
    if (share === 'project') return `${deploysOfProject} of the project’s ${after}`;
    if (share === 'account') return `${deploysOfAccount} of the account’s ${after}`;
    return this.#underWay.isFull(ref) ? `${deploys} ${after}` : undefined;
  }

  async #replace(
    served: EdgeFunction | undefined,
    { ref, name, version, code }: DeployRequest,
    deployment: Deployment,
  ): Promise<DeployOutcome> {
    const { functions, store, make, log, unreadable } = this.#options;
    await store.put(ref, name, version, code);
    const target = served ?? make(ref, name, deployment);
    const outcome = await this.#bringUp(target, deployment);
    if (outcome.state !== 'ready') {
      if (served?.deployment.version !== version) await store.discard(ref, name, version);
      return outcome;
    }
    await store.commit(ref, name, deployment);
    functions.set(keyOf(ref, name), target);
    unreadable.forget(ref, name);
    log.info({ ref, function: name, version }, 'function deployed');
    return outcome;
  }

  async #bringUp(target: EdgeFunction, deployment: Deployment): Promise<DeployOutcome> {
    const { store } = this.#options;
    const { ref, name } = target;
    try {
      const problems = await this.#check(ref, store.source(ref, name, deployment.version));
      if (problems.length > 0) return { state: 'refused', problems };
      await target.deploy(deployment);
      return { state: 'ready' };
    } catch (error) {
      if (error instanceof BootFailed) return { state: 'refused', problems: [bootProblem(error)] };
      if (error instanceof Unavailable) return { state: 'busy', message: error.message };
      throw error;
    }
  }

  /** Checks a source. If imports of earlier versions fill the cache, removes them and checks again. */
  async #check(ref: string, source: string): Promise<SourceProblem[]> {
    const { store, deno, limits, watchdog } = this.#options;
    const { resolveMilliseconds, cacheMegabytes } = limits;
    const watch = (process: Launched, tooLarge: (isShared: boolean) => void) =>
      watchdog.watchCheck({ ref, process, tooLarge });
    const end = performance.now() + resolveMilliseconds;
    const shared = { deno, cache: store.cache(ref), account: accountOf(ref), watch };
    for (let cleaned = 0; cleaned < 2; cleaned++) {
      try {
        return await checkSource({ ...shared, source, milliseconds: end - performance.now(), cacheMegabytes });
      } catch (error) {
        if (!(error instanceof CacheFull)) throw error;
        const others = (await store.sources(ref)).filter((other) => other !== source);
        await cleanCache({ ...shared, sources: others.map((folder) => path.join(folder, 'index.ts')) });
        await store.makeCache(ref);
      }
    }
    return [{ message: `what the project’s functions import is more than ${cacheMegabytes} MiB: import less` }];
  }

  async #inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(key) ?? Promise.resolve();
    const turn = before.then(work, work);
    const settled = turn.catch(() => undefined);
    this.#queues.set(key, settled);
    try {
      return await turn;
    } finally {
      if (this.#queues.get(key) === settled) this.#queues.delete(key);
    }
  }
}

/** Returns the place where the error was thrown, if it is in the function's own source. */
function bootProblem({ message }: BootFailed): SourceProblem {
  const place = /index\.ts:(\d+):(\d+)/.exec(message);
  const text = message.split('\n', 1)[0]?.replaceAll(/file:\/\/\/\S*\/index\.ts/g, 'index.ts') ?? '';
  const at = place ? { line: Number(place[1]), column: Number(place[2]) } : {};
  return { message: `it does not start: ${text}`.slice(0, 400), ...at };
}
