/**
 * Follows one collection of the Kubernetes API. Out: `replace` with everything after each list, then each change as it
 * comes. A watch that ends is resumed from where it was; one that is too old (410) is listed anew; a server that is
 * down is asked again with growing, jittered pauses, while what was known stays known. Called by the registry.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type KubeConfig, Watch } from '@kubernetes/client-node';
import type { Logger } from 'pino';

export interface WatchedObject {
  metadata: { name: string; namespace?: string; resourceVersion?: string };
}

export interface Page<T> {
  items: T[];
  metadata: { resourceVersion?: string; _continue?: string; continue?: string };
}

export interface Collection<T extends WatchedObject> {
  path: string;
  /** Label and field selectors: the same for lists and watches. */
  selectors: Record<string, string>;
  list(limit: number, from: string | undefined): Promise<Page<T>>;
  replace(objects: T[]): void;
  put(object: T): void;
  remove(object: T): void;
}

const PAGE_SIZE = 500;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** A watch that ends sooner counts as a failure, or one that is always refused would be asked for without pause. */
const SHORTEST_WATCH_MS = 1_000;
/** After so many failures in a row the version itself may be what the server can't serve. */
const FAILURES_BEFORE_LIST = 3;
const GONE = 410;

export class CollectionWatch<T extends WatchedObject> {
  readonly #stop = new AbortController();
  readonly #watch: Watch;
  #version: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #firstList = Promise.withResolvers<void>();

  constructor(
    kubeConfig: KubeConfig,
    private readonly collection: Collection<T>,
    private readonly log: Logger,
  ) {
    this.#watch = new Watch(kubeConfig);
  }

  /** Resolves after the first list. */
  start(): Promise<void> {
    this.#running ??= this.#run();
    return this.#firstList.promise;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        this.#version ??= await this.#list();
        await this.#follow(this.#version);
      } catch (error) {
        this.#noteFailure(error);
      }
      if (this.#failures > 0) await this.#pause();
    }
  }

  async #list(): Promise<string> {
    const objects: T[] = [];
    let from: string | undefined;
    for (;;) {
      const { items, metadata } = await this.collection.list(PAGE_SIZE, from);
      objects.push(...items);
      from = metadata._continue || metadata.continue;
      if (!from) {
        this.collection.replace(objects);
        this.#firstList.resolve();
        return metadata.resourceVersion ?? '';
      }
    }
  }

  /** Resolves when the server ends the watch, which it does from time to time. */
  async #follow(from: string): Promise<void> {
    const begun = performance.now();
    const ended = Promise.withResolvers<void>();
    const onEvent = (type: string, object: T & { code?: number; message?: string }) => {
      if (type === 'ERROR') ended.reject(Object.assign(new Error(object.message), { statusCode: object.code }));
      else takeOr(() => this.#take(type, object), ended.reject);
    };
    const watching = await this.#watch.watch(
      this.collection.path,
      { ...this.collection.selectors, resourceVersion: from, allowWatchBookmarks: true },
      onEvent,
      (error) => (error && error.name !== 'TimeoutError' ? ended.reject(error) : ended.resolve()),
    );
    const stop = () => watching.abort();
    this.#stop.signal.addEventListener('abort', stop);
    if (this.#stop.signal.aborted) stop();
    const isShort = () => performance.now() - begun < SHORTEST_WATCH_MS;
    try {
      await ended.promise;
      if (isShort()) this.#failures++;
    } finally {
      // However it ended, what failed before it is over.
      if (!isShort()) this.#failures = 0;
      this.#stop.signal.removeEventListener('abort', stop);
      watching.abort();
    }
  }

  #take(type: string, object: T): void {
    this.#failures = 0;
    this.#version = object.metadata.resourceVersion ?? this.#version;
    if (type === 'ADDED' || type === 'MODIFIED') this.collection.put(object);
    else if (type === 'DELETED') this.collection.remove(object);
  }

  #noteFailure(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#failures++;
    const status = (error as { statusCode?: number; code?: unknown }).statusCode ?? (error as { code?: unknown }).code;
    if (status === GONE || this.#failures >= FAILURES_BEFORE_LIST) this.#version = undefined;
    const { path } = this.collection;
    this.log.warn(
      { path, failures: this.#failures, reason: reasonOf(error) },
      'the Kubernetes API did not answer a watch',
    );
  }

  async #pause(): Promise<void> {
    const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures - 1, 10));
    await pause(longest * (0.5 + Math.random() / 2), undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }
}

/** Reports an error of `take` to `fail`: the caller would swallow it, and the object would be missing for good. */
function takeOr(take: () => void, fail: (error: unknown) => void): void {
  try {
    take();
  } catch (error) {
    fail(error);
  }
}

/** Why, without the request: that has a token in its headers. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  const deeper = cause instanceof Error ? `: ${cause.message}` : '';
  return `${message.split('\n', 1)[0]}${deeper}`.slice(0, 200);
}
