/**
 * Functions on a cluster, which run in pods of their own, all functions of a project in one pod. In: the URLs of the
 * pods, and the platform's token for them. Out: the methods of `FunctionEngine`, sent to the project's pod; and a call
 * for each pod that returned without its disk.
 */
import { FUNCTIONS_CONTROL_PORT, podOf } from '@slipway/installation';
import type { Logger } from 'pino';
import type { FunctionEngine, FunctionOutcome, FunctionRequest, LossListener } from '../../capabilities/index.js';
import { FunctionControl } from '../function-control.js';

export interface PodFunctionsOptions {
  /** URLs of the pods. */
  urls: readonly string[];
  /** Returns the token. It is read again, at a bounded rate, if a pod rejects it. */
  token(): Promise<string>;
  controlPort?: number;
  lookMilliseconds?: number;
  tokenMilliseconds?: number | undefined;
  log: Logger;
}

const LOOK_MS = 3_000;
/**
 * Milliseconds for which the token is reused. A pod gets a Secret that was created again about a minute after this
 * program, and rejects each request until then.
 */
const TOKEN_MS = 30_000;

export class PodFunctions implements FunctionEngine {
  readonly #options: PodFunctionsOptions;
  readonly #pods: ReadonlyMap<string, FunctionControl>;
  readonly #disks = new Map<string, string>();
  /** The disks from which deleted functions were removed. */
  readonly #tidy = new Set<string>();
  #isWanted: ((ref: string, name: string) => boolean) | undefined;
  readonly #listeners: LossListener[] = [];
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #closed = false;

  constructor(options: PodFunctionsOptions) {
    this.#options = options;
    const { urls, controlPort = FUNCTIONS_CONTROL_PORT } = options;
    const token = seldom(options.token, options.tokenMilliseconds ?? TOKEN_MS);
    const controlOf = (url: string) => new FunctionControl({ origin: onPort(url, controlPort), token });
    this.#pods = new Map(urls.map((url) => [url, controlOf(url)]));
  }

  ensureFunction(request: FunctionRequest): Promise<FunctionOutcome> {
    return this.#podOf(request.ref).ensure(request);
  }

  removeFunction(ref: string, name: string): Promise<void> {
    return this.#podOf(ref).remove(ref, name);
  }

  onLost(listener: LossListener): void {
    this.#listeners.push(listener);
  }

  /**
   * Deletes unwanted functions from disks. A pod that was deleted returns with its disk, but does not know which
   * functions were removed in between. Functions of projects that are now in another pod stay: no request for them
   * comes here, and they are checked again when the pods change.
   */
  keepOnly(isWanted: (ref: string, name: string) => boolean): void {
    this.#isWanted = isWanted;
  }

  /** Starts to read the identity of the pods' disks. */
  start(): void {
    for (const url of this.#pods.keys()) void this.#look(url);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    await Promise.all([...this.#pods.values()].map((pod) => pod.close()));
  }

  #podOf(ref: string): FunctionControl {
    return this.#pods.get(podOf(ref, this.#options.urls)) as FunctionControl;
  }

  /** Looks at one pod, independently of the others: a pod on a failed node must not delay them. */
  async #look(url: string): Promise<void> {
    await this.#lookAt(url, this.#pods.get(url) as FunctionControl);
    if (this.#closed) return;
    const { lookMilliseconds = LOOK_MS } = this.#options;
    this.#timers.set(
      url,
      setTimeout(() => void this.#look(url), lookMilliseconds),
    );
  }

  async #lookAt(url: string, pod: FunctionControl): Promise<void> {
    const disk = await pod.disk();
    if (disk === undefined) return;
    const before = this.#disks.get(url);
    this.#disks.set(url, disk);
    // At the first look nothing is reported: the first reconciles deploy all functions.
    if (before !== undefined && disk !== before) {
      this.#options.log.warn({ pod: url }, 'functions of a pod lost; deployed again');
      for (const listener of this.#listeners) listener((ref) => podOf(ref, this.#options.urls) === url);
    }
    if (!this.#tidy.has(disk) && (await this.#removeUnwanted(url, pod))) this.#tidy.add(disk);
  }

  /** Returns false if it has to be retried. */
  async #removeUnwanted(url: string, pod: FunctionControl): Promise<boolean> {
    const deployed = await pod.deployed();
    if (!deployed) return false;
    for (const { ref, name } of deployed) {
      if (this.#isWanted?.(ref, name) ?? true) continue;
      const removed = await pod.remove(ref, name).then(
        () => true,
        () => false,
      );
      if (!removed) return false;
      this.#options.log.info({ pod: url, ref, function: name }, 'deleted function removed from a pod');
    }
    return true;
  }
}

/** Caches the result of `ask` for `milliseconds`. A failure is not cached. */
function seldom(ask: () => Promise<string>, milliseconds: number): () => Promise<string> {
  let cached: { token: Promise<string>; at: number } | undefined;
  return () => {
    if (cached && performance.now() - cached.at < milliseconds) return cached.token;
    const reading = { token: ask(), at: performance.now() };
    cached = reading;
    reading.token.catch(() => {
      if (cached === reading) cached = undefined;
    });
    return reading.token;
  };
}

function onPort(address: string, port: number): string {
  const url = new URL(address);
  url.port = String(port);
  return url.origin;
}
