/**
 * On a cluster functions run in pods of their own, each project's in one of them. In: the URLs of the pods, the
 * platform's token for them. Out: the verbs of `FunctionEngine`, asked of the project's pod; and word of pods that came
 * back without the disk that they had.
 */
import { FUNCTIONS_CONTROL_PORT, podOf } from '@slipway/crds';
import type { Logger } from 'pino';
import { FunctionControl } from '../function-control.js';
import type { FunctionEngine, FunctionOutcome, FunctionRequest, LossListener } from '../function-engine.js';

export interface PodFunctionsOptions {
  /** Where calls go, one of each pod. */
  urls: readonly string[];
  /** Asked for again where a pod refuses it, but seldom. */
  token(): Promise<string>;
  controlPort?: number;
  lookMilliseconds?: number;
  tokenMilliseconds?: number | undefined;
  log: Logger;
}

const LOOK_MS = 3_000;
/** A pod has a Secret that was made again a minute later than we: for so long each request is refused. */
const TOKEN_MS = 30_000;

export class PodFunctions implements FunctionEngine {
  readonly #options: PodFunctionsOptions;
  readonly #pods: ReadonlyMap<string, FunctionControl>;
  readonly #disks = new Map<string, string>();
  /** The disks from which what is not wanted is removed. */
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
   * A pod that was taken away keeps its disk, and is there again with it: of functions that were removed meanwhile it
   * does not know. Those of projects that are in another pod now are let be: nobody asks for them here, and they are
   * looked at again when the pods change.
   */
  keepOnly(isWanted: (ref: string, name: string) => boolean): void {
    this.#isWanted = isWanted;
  }

  /** From now on pods are asked for their disks. */
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

  /** Each pod by itself: one whose node is gone keeps nobody from seeing the others. */
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
    // What was deployed before this operator led is asked for by its first reconciles.
    if (before !== undefined && disk !== before) {
      this.#options.log.warn({ pod: url }, 'functions of a pod lost: they are deployed again');
      for (const listener of this.#listeners) listener((ref) => podOf(ref, this.#options.urls) === url);
    }
    if (!this.#tidy.has(disk) && (await this.#removeUnwanted(url, pod))) this.#tidy.add(disk);
  }

  /** False: to be tried again. */
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
      this.#options.log.info(
        { pod: url, ref, function: name },
        'a function that was removed while its pod was away is gone',
      );
    }
    return true;
  }
}

/** Caches the result of `ask` for `milliseconds`. A failure is not cached. */
function seldom(ask: () => Promise<string>, milliseconds: number): () => Promise<string> {
  let asked: { said: Promise<string>; at: number } | undefined;
  return () => {
    if (asked && performance.now() - asked.at < milliseconds) return asked.said;
    const asking = { said: ask(), at: performance.now() };
    asked = asking;
    asking.said.catch(() => {
      if (asked === asking) asked = undefined;
    });
    return asking.said;
  };
}

function onPort(address: string, port: number): string {
  const url = new URL(address);
  url.port = String(port);
  return url.origin;
}
