/**
 * Deployments, one at a time for each function and a few for each project: more are told to come again, and none waits here. In: source and version, from the operator. Out: served, or what is wrong with
 * it. Asked for what is served already it does nothing, so it may be asked as often as one likes.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import type { Logger } from 'pino';
import { accountOf } from './account.js';
import { cleanCache } from './cache.js';
import { CacheFull, checkSource, type SourceProblem } from './check.js';
import type { Deno } from './deno.js';
import { type EdgeFunction, keyOf } from './function.js';
import { BootFailed, Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import type { LogLine } from './logs.js';
import type { Deployment, FunctionStore } from './store.js';

export interface DeployRequest {
  ref: string;
  name: string;
  version: number;
  code: string;
  verifyJwt: boolean;
}

export type DeployOutcome =
  | { state: 'ready' }
  /** What is served, if anything, is as it was. */
  | { state: 'refused'; problems: SourceProblem[] }
  | { state: 'busy'; message: string };

export interface DeployerOptions {
  store: FunctionStore;
  functions: Map<string, EdgeFunction>;
  /** Whether the project is known here: without its keys no function of it is started. */
  knows(ref: string): boolean;
  make(ref: string, name: string, deployment: Deployment): EdgeFunction;
  deno: Deno;
  limits: FunctionLimits;
  log: Logger;
}

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$/;
const REF = /^[a-z0-9][a-z0-9-]{0,62}$/;

export class Deployer {
  readonly #options: DeployerOptions;
  readonly #queues = new Map<string, Promise<unknown>>();
  /** How many functions of a project are brought up now. */
  readonly #underWay = new Map<string, number>();

  constructor(options: DeployerOptions) {
    this.#options = options;
  }

  deploy(request: DeployRequest): Promise<DeployOutcome> {
    if (!REF.test(request.ref) || !NAME.test(request.name) || !Number.isSafeInteger(request.version)) {
      throw new Error('a project, a name or a version is not as it should be');
    }
    const key = keyOf(request.ref, request.name);
    // Whoever asked gave up, and asks again: the sources that wait would be ever more.
    if (this.#queues.has(key)) return Promise.resolve({ state: 'busy', message: 'the function is being deployed' });
    return this.#inTurn(key, () => this.#deploy(request));
  }

  remove(ref: string, name: string): Promise<void> {
    const { functions, store } = this.#options;
    return this.#inTurn(keyOf(ref, name), async () => {
      if (!REF.test(ref) || !NAME.test(name)) return;
      const found = functions.get(keyOf(ref, name));
      functions.delete(keyOf(ref, name));
      await found?.remove();
      await store.remove(ref, name);
    });
  }

  deployed(): { ref: string; name: string }[] {
    return [...this.#options.functions.values()].map(({ ref, name }) => ({ ref, name }));
  }

  /** Undefined: nothing of that name is deployed. */
  logs(ref: string, name: string, after: number, limit: number): LogLine[] | undefined {
    return this.#options.functions.get(keyOf(ref, name))?.log.read(after, limit);
  }

  async #deploy(request: DeployRequest): Promise<DeployOutcome> {
    const { ref, name, version, code, verifyJwt } = request;
    const { functions, store, knows, limits } = this.#options;
    const deployment = { version, verifyJwt, digest: createHash('sha256').update(code).digest('base64url') };
    const served = functions.get(keyOf(ref, name));
    if (served?.deployment.version === version && served.deployment.digest === deployment.digest) {
      if (served.deployment.verifyJwt !== verifyJwt) {
        served.deployment = deployment;
        await store.commit(ref, name, deployment);
      }
      return { state: 'ready' };
    }
    if (!knows(ref)) return { state: 'busy', message: 'the data plane does not know the project yet' };
    const underWay = this.#underWay.get(ref) ?? 0;
    if (underWay >= limits.deploysOfProject) {
      return {
        state: 'busy',
        message: `${underWay} functions of the project are being deployed, and this one after them`,
      };
    }
    this.#underWay.set(ref, underWay + 1);
    try {
      return await this.#replace(served, request, deployment);
    } finally {
      const left = (this.#underWay.get(ref) as number) - 1;
      if (left > 0) this.#underWay.set(ref, left);
      else this.#underWay.delete(ref);
    }
  }

  async #replace(
    served: EdgeFunction | undefined,
    { ref, name, version, code }: DeployRequest,
    deployment: Deployment,
  ): Promise<DeployOutcome> {
    const { functions, store, make, log } = this.#options;
    await store.put(ref, name, version, code);
    const target = served ?? make(ref, name, deployment);
    const outcome = await this.#bringUp(target, deployment);
    if (outcome.state !== 'ready') {
      if (served?.deployment.version !== version) await store.discard(ref, name, version);
      return outcome;
    }
    await store.commit(ref, name, deployment);
    functions.set(keyOf(ref, name), target);
    log.info({ ref, function: name, version }, 'a function is deployed');
    return outcome;
  }

  async #bringUp(target: EdgeFunction, deployment: Deployment): Promise<DeployOutcome> {
    const { store } = this.#options;
    const { ref, name } = target;
    const problems = await this.#check(ref, store.source(ref, name, deployment.version));
    if (problems.length > 0) return { state: 'refused', problems };
    try {
      await target.deploy(deployment);
      return { state: 'ready' };
    } catch (error) {
      if (error instanceof BootFailed) return { state: 'refused', problems: [bootProblem(error)] };
      if (error instanceof Unavailable) return { state: 'busy', message: error.message };
      throw error;
    }
  }

  /** What earlier versions imported may be most of a full cache: without that it is tried once more. */
  async #check(ref: string, source: string): Promise<SourceProblem[]> {
    const { store, deno, limits } = this.#options;
    const { resolveMilliseconds, cacheMegabytes } = limits;
    const end = performance.now() + resolveMilliseconds;
    const shared = { deno, cache: store.cache(ref), account: accountOf(ref) };
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

/** Where the error was thrown, if the function's own source says so. */
function bootProblem({ message }: BootFailed): SourceProblem {
  const place = /index\.ts:(\d+):(\d+)/.exec(message);
  const text = message.split('\n', 1)[0]?.replaceAll(/file:\/\/\/\S*\/index\.ts/g, 'index.ts') ?? '';
  const at = place ? { line: Number(place[1]), column: Number(place[2]) } : {};
  return { message: `it does not start: ${text}`.slice(0, 400), ...at };
}
