/**
 * A cache of one resource, kept by list and watch, with indexes. In: the API server. Out: objects by key or index, and
 * a call for each change. It never gives up: a watch that ends goes on where it was, one that is too old lists again,
 * one that is silent for too long is begun anew. Objects are shared: whoever reads them must not change them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Backoff, delayOf } from './backoff.js';
import { isGone, type KubeClient, KubeError, type KubeObject } from './kube.js';
import type { Metrics } from './metrics.js';

export interface Change<T> {
  before: T | undefined;
  after: T | undefined;
}

export interface InformerOptions<T> {
  client: KubeClient;
  /** For logs and metrics: `projects`. */
  resource: string;
  path: string;
  labelSelector?: string;
  /** The values under which an object is found, by the index's name. */
  indexes?: Record<string, (object: T) => string[]>;
  /**
   * Returns the part of an object that the cache keeps; listeners see changes of that part alone. Default: the whole
   * object.
   */
  keep?: (object: T) => T;
  metrics: Metrics;
  log: Logger;
  /** How long one watch lasts, as the server ends it. */
  watchSeconds?: number;
  /** Silent for so much longer than a server ever is, its connection is dead. */
  silenceGraceMs?: number;
  backoff?: Backoff;
}

/** Each watch is a request: two operators with some fifteen caches each begin few of them. */
const WATCH_SECONDS = 480;
/** A server tells in a bookmark once a minute, give or take a quarter, how far it is, though nothing has changed. */
const BOOKMARK_MS = 75_000;
const SILENCE_GRACE_MS = 10_000;
const BACKOFF: Backoff = { firstMs: 100, maxMs: 20_000 };
const PAGE = 500;
/** A watch that ends sooner than this after it began was refused rather than over. */
const SHORT_WATCH_MS = 1_000;

interface List<T> {
  metadata: { resourceVersion: string; continue?: string };
  items: T[];
}

interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: T & { code?: number; reason?: string; message?: string };
}

export class Informer<T extends KubeObject> {
  readonly #options: InformerOptions<T>;
  readonly #objects = new Map<string, T>();
  readonly #indexes = new Map<string, Map<string, Set<string>>>();
  readonly #listeners: ((change: Change<T>) => void)[] = [];
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  #version: string | undefined;
  /** While a list is under way: what was learned meanwhile, of which the list may tell what was before. */
  #learned: Set<string> | undefined;
  #loop: Promise<void> | undefined;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    for (const name of Object.keys(options.indexes ?? {})) this.#indexes.set(name, new Map());
  }

  /** Must be called before `start` to hear of every object. */
  onChange(listener: (change: Change<T>) => void): void {
    this.#listeners.push(listener);
  }

  /** Resolves when the cache holds all that there was. */
  start(): Promise<void> {
    this.#loop ??= this.#run();
    return this.#synced.promise;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#synced.resolve();
    await this.#loop;
  }

  get(name: string, namespace?: string): T | undefined {
    return this.#objects.get(keyOf(name, namespace));
  }

  list(): T[] {
    return [...this.#objects.values()];
  }

  find(index: string, value: string): T[] {
    const keys = this.#indexes.get(index)?.get(value) ?? [];
    return [...keys].map((key) => this.#objects.get(key) as T);
  }

  /** Stores the result of our own write at once, without waiting for the watch. */
  learn(object: T): void {
    const known = this.get(object.metadata.name, object.metadata.namespace);
    if (!known || known.metadata.uid !== object.metadata.uid || !isNewer(object, known)) return;
    this.#store(this.#kept(object));
    this.#learned?.add(keyOf(object.metadata.name, object.metadata.namespace));
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      const begun = performance.now();
      const reason = await this.#listAndWatch();
      if (this.#stop.signal.aborted) return;
      this.#options.metrics.watchRestarted(this.#options.resource, reason);
      failures = performance.now() - begun > SHORT_WATCH_MS ? 0 : failures + 1;
      const wait = failures === 0 ? 0 : delayOf(this.#options.backoff ?? BACKOFF, failures);
      await sleep(wait, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  /** Returns why it ended. */
  async #listAndWatch(): Promise<string> {
    const { log, resource } = this.#options;
    try {
      if (this.#version === undefined) await this.#list();
      this.#synced.resolve();
      await this.#watch();
      return 'over';
    } catch (error) {
      if (this.#stop.signal.aborted) return 'closed';
      if (isGone(error)) this.#version = undefined;
      const why = error instanceof Error ? error.message : String(error);
      log.warn({ resource, why }, 'watch broken and restarted');
      return isGone(error) ? 'gone' : 'error';
    }
  }

  async #list(): Promise<void> {
    const { client, path } = this.#options;
    const signal = this.#stop.signal;
    const seen = new Map<string, T>();
    const learned = new Set<string>();
    this.#learned = learned;
    let version = '';
    for (let next: string | undefined = ''; next !== undefined; ) {
      const query = { ...this.#selector(), limit: String(PAGE), ...(next ? { continue: next } : {}) };
      const page: List<T> = await client.request({ method: 'GET', path, query, signal });
      for (const object of page.items)
        seen.set(keyOf(object.metadata.name, object.metadata.namespace), this.#kept(object));
      version = page.metadata.resourceVersion;
      next = page.metadata.continue || undefined;
    }
    for (const [key, object] of this.#objects) if (!seen.has(key)) this.#remove(object);
    // A server restored from an older state lists older versions: the list is right whatever the cache holds.
    for (const [key, object] of seen) this.#store(object, learned.has(key) ? isNewer : differs);
    this.#learned = undefined;
    this.#version = version;
  }

  async #watch(): Promise<void> {
    const { client, path, watchSeconds = WATCH_SECONDS, silenceGraceMs = SILENCE_GRACE_MS } = this.#options;
    // Not all watches of all informers end at the same moment.
    const timeoutSeconds = Math.ceil(watchSeconds * (0.75 + Math.random() / 4));
    const query = {
      ...this.#selector(),
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version as string,
      timeoutSeconds: String(timeoutSeconds),
    };
    const request = { method: 'GET' as const, path, query, signal: this.#stop.signal };
    const silenceMs = Math.min(timeoutSeconds * 1000, BOOKMARK_MS) + silenceGraceMs;
    for await (const line of client.lines(request, silenceMs)) {
      this.#take(JSON.parse(line) as WatchEvent<T>);
    }
  }

  #take({ type, object }: WatchEvent<T>): void {
    if (type === 'ERROR') {
      const { code = 500, reason = '', message = 'watch error' } = object;
      throw new KubeError(code, reason, message, this.#options.resource);
    }
    this.#version = object.metadata.resourceVersion;
    if (type === 'BOOKMARK') return;
    if (type === 'DELETED') this.#remove(object);
    else this.#store(this.#kept(object));
  }

  #kept(object: T): T {
    const kept = withoutManagers(object);
    return this.#options.keep?.(kept) ?? kept;
  }

  #store(object: T, supersedes: (object: T, before: T) => boolean = isNewer): void {
    const key = keyOf(object.metadata.name, object.metadata.namespace);
    const before = this.#objects.get(key);
    // The watch tells again of what `learn` had told, and of what was before it.
    if (before && before.metadata.uid === object.metadata.uid && !supersedes(object, before)) return;
    this.#objects.set(key, object);
    this.#reindex(key, before, object);
    this.#tell({ before, after: object });
  }

  #remove(object: T): void {
    const key = keyOf(object.metadata.name, object.metadata.namespace);
    const before = this.#objects.get(key);
    if (!before) return;
    this.#objects.delete(key);
    this.#reindex(key, before, undefined);
    this.#tell({ before, after: undefined });
  }

  #reindex(key: string, before: T | undefined, after: T | undefined): void {
    for (const [name, valuesOf] of Object.entries(this.#options.indexes ?? {})) {
      const index = this.#indexes.get(name) as Map<string, Set<string>>;
      for (const value of before ? valuesOf(before) : []) {
        const keys = index.get(value);
        keys?.delete(key);
        if (keys?.size === 0) index.delete(value);
      }
      for (const value of after ? valuesOf(after) : []) {
        const keys = index.get(value) ?? new Set();
        index.set(value, keys.add(key));
      }
    }
  }

  #tell(change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#options.log.error({ resource: this.#options.resource, error }, 'listener failed');
      }
    }
  }

  #selector(): Record<string, string> {
    return this.#options.labelSelector ? { labelSelector: this.#options.labelSelector } : {};
  }
}

/** Removes `managedFields`: most of an object's bytes, and no code here reads them. */
function withoutManagers<T extends KubeObject>(object: T): T {
  const { managedFields, ...metadata } = object.metadata as KubeObject['metadata'] & { managedFields?: unknown };
  return managedFields === undefined ? object : { ...object, metadata };
}

const keyOf = (name: string, namespace: string | undefined) => (namespace ? `${namespace}/${name}` : name);

const differs = (a: KubeObject, b: KubeObject) => a.metadata.resourceVersion !== b.metadata.resourceVersion;

/** Versions are whole numbers that grow (Kubernetes 1.35 promises it; servers before it did so). */
export function isNewer(object: KubeObject, than: KubeObject): boolean {
  const [a, b] = [object.metadata.resourceVersion ?? '', than.metadata.resourceVersion ?? ''];
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return a !== b;
  return BigInt(a) > BigInt(b);
}
