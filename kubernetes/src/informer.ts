/**
 * A cache of one resource, kept up to date by list and watch, with indexes. In: the API server. Out: objects by key or
 * index, and a call for each change.
 *
 * The informer never gives up. A watch that ends is resumed at its version. If that version has expired, it lists
 * again. A watch that is silent for too long is replaced. Objects are shared: readers must not change them.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, delayOf, type JsonBound, parseJsonInTurns } from '@slipway/program';
import type { Logger } from 'pino';
import type { KubeClient } from './client.js';
import { isGone, KubeError, Unanswered } from './errors.js';
import type { KubeObject } from './objects.js';

export interface Change<T> {
  before: T | undefined;
  after: T | undefined;
}

export interface InformerOptions<T> {
  client: KubeClient;
  /** The name of the resource in logs and metrics: `projects`. */
  resource: string;
  path: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Functions by index name. Each returns the values under which an object is found. */
  indexes?: Record<string, (object: T) => string[]>;
  /**
   * Returns the part of an object that the cache keeps. Listeners see changes of that part alone. Default: the whole
   * object.
   */
  keep?: (object: T) => T;
  /** Objects in one page of a list. Default: 100. */
  pageLimit?: number;
  /** Counts the watches that were restarted, by reason. */
  metrics?: { watchRestarted(resource: string, reason: string): void };
  log: Logger;
  /** Seconds after which the server ends a watch. */
  watchSeconds?: number;
  /** Milliseconds of silence beyond the longest interval of bookmarks, after which the connection counts as dead. */
  silenceGraceMs?: number;
  backoff?: Backoff;
}

/**
 * Seconds until a watch ends. Each watch is a request. Two operators with some fifteen caches each must not send many
 * of them.
 */
const WATCH_SECONDS = 480;
/**
 * Maximum milliseconds between two bookmarks. A server sends one about once a minute, give or take a quarter, even if
 * nothing changes.
 */
const BOOKMARK_MS = 75_000;
const SILENCE_GRACE_MS = 10_000;
const BACKOFF: Backoff = { firstMs: 100, maxMs: 20_000 };
/**
 * Limits of an event, which has one object. API servers accept objects of 1.5 MiB, and JSON may write one character as
 * six.
 */
const MOST_OF_EVENT: JsonBound = { bytes: 9 * 1024 * 1024, depth: 510, values: 150_000 };
/** Milliseconds from its start within which an ended watch counts as rejected, not as finished. */
const SHORT_WATCH_MS = 1_000;
/**
 * Number of rejections in a row without an event after which the informer lists again, because the server may be unable
 * to serve the version.
 */
const REFUSALS_BEFORE_LIST = 3;
const REMEMBERED_GONE = 1_000;

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
  #refusals = 0;
  #isCurrent = false;
  /** Uids of deleted objects, the latest last. A late response to a write must not restore one of them. */
  readonly #gone = new Set<string>();
  /** Keys of objects that `learn` stored while a list was in progress. The list may have older versions of them. */
  #learned: Set<string> | undefined;
  #loop: Promise<void> | undefined;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    for (const name of Object.keys(options.indexes ?? {})) this.#indexes.set(name, new Map());
  }

  /** Adds a listener. To get every object, call it before `start`. */
  onChange(listener: (change: Change<T>) => void): void {
    this.#listeners.push(listener);
  }

  /** Resolves when the initial list is complete. */
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

  /**
   * Stores the result of our own write at once, without waiting for the watch; also that of a creation. Ignores an
   * object that is already deleted.
   */
  learn(object: T): void {
    const { name, namespace, uid = '', deletionTimestamp } = object.metadata;
    const known = this.get(name, namespace);
    if (this.#gone.has(uid) || (!known && (deletionTimestamp || this.#isPast(object)))) return;
    if (known?.metadata.uid === uid && !isNewer(object, known)) return;
    this.#store(this.#kept(object));
    this.#learned?.add(keyOf(name, namespace));
  }

  /** True if the watch is past this version of the object. Then an unknown object was deleted. */
  #isPast(object: T): boolean {
    return this.#version !== undefined && !isNewer(object, { metadata: { name: '', resourceVersion: this.#version } });
  }

  /** Removes an object that our own request deleted completely. */
  forget({ metadata: { name, namespace, uid } }: T): void {
    const known = this.get(name, namespace);
    if (known?.metadata.uid === uid) this.#remove(known as T);
    else this.#rememberGone(uid);
  }

  /** False while the server is unavailable: then the objects here may be outdated. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      const begun = performance.now();
      const reason = await this.#listAndWatch();
      if (this.#stop.signal.aborted) return;
      this.#options.metrics?.watchRestarted(this.#options.resource, reason);
      failures = performance.now() - begun > SHORT_WATCH_MS ? 0 : failures + 1;
      const wait = failures === 0 ? 0 : delayOf(this.#options.backoff ?? BACKOFF, failures);
      await sleep(wait, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  /** Returns the reason of its end, for metrics. */
  async #listAndWatch(): Promise<string> {
    const { log, resource } = this.#options;
    try {
      if (this.#version === undefined) await this.#list();
      this.#synced.resolve();
      await this.#watch();
      return 'over';
    } catch (error) {
      if (this.#stop.signal.aborted) return 'closed';
      if (!isGone(error)) this.#isCurrent = false;
      if (!(error instanceof Unanswered)) this.#refusals += 1;
      if (isGone(error) || this.#refusals >= REFUSALS_BEFORE_LIST) this.#version = undefined;
      const why = error instanceof Error ? error.message : String(error);
      log.warn({ resource, why }, 'watch broken and restarted');
      return isGone(error) ? 'gone' : 'error';
    }
  }

  async #list(): Promise<void> {
    const { client, path, pageLimit: limit } = this.#options;
    const signal = this.#stop.signal;
    const seen = new Map<string, T>();
    const learned = new Set<string>();
    this.#learned = learned;
    const version = await client.eachOf<T>(
      { path, query: this.#selector(), signal, ...(limit && { limit }) },
      (object) => {
        seen.set(keyOf(object.metadata.name, object.metadata.namespace), this.#kept(object));
      },
    );
    const listed: KubeObject = { metadata: { name: '', resourceVersion: version } };
    for (const [key, object] of this.#objects) {
      const isLater = learned.has(key) && isNewer(object, listed);
      if (!seen.has(key) && !isLater) this.#remove(object);
    }
    // The list replaces the cache whatever its versions are: a server that was restored from a backup lists older
    // versions.
    for (const [key, object] of seen) this.#store(object, learned.has(key) ? isNewer : differs);
    this.#learned = undefined;
    this.#version = version;
    this.#refusals = 0;
  }

  async #watch(): Promise<void> {
    const { client, path, watchSeconds = WATCH_SECONDS, silenceGraceMs = SILENCE_GRACE_MS } = this.#options;
    // A random duration, so that the watches of all informers don't end at the same moment.
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
    const onAnswer = () => {
      this.#isCurrent = true;
    };
    for await (const line of client.lines(request, silenceMs, onAnswer)) {
      this.#take((await parseJsonInTurns(Buffer.from(line), MOST_OF_EVENT)) as WatchEvent<T>);
    }
  }

  #take({ type, object }: WatchEvent<T>): void {
    if (type === 'ERROR') {
      const { code = 500, reason = '', message = 'watch error' } = object;
      throw new KubeError(code, reason, message, this.#options.resource);
    }
    this.#version = object.metadata.resourceVersion;
    this.#refusals = 0;
    if (type === 'BOOKMARK') return;
    if (type === 'DELETED') this.forget(object);
    else this.#store(this.#kept(object));
  }

  #kept(object: T): T {
    return withoutManagers(this.#options.keep?.(object) ?? object);
  }

  #store(object: T, supersedes: (object: T, before: T) => boolean = isNewer): void {
    const key = keyOf(object.metadata.name, object.metadata.namespace);
    const before = this.#objects.get(key);
    // The watch repeats changes that `learn` reported, and may repeat older ones.
    if (before && !supersedes(object, before)) return;
    if (before && before.metadata.uid !== object.metadata.uid) this.#rememberGone(before.metadata.uid);
    this.#gone.delete(object.metadata.uid ?? '');
    this.#objects.set(key, object);
    this.#reindex(key, before, object);
    this.#notify({ before, after: object });
  }

  #remove(object: T): void {
    const key = keyOf(object.metadata.name, object.metadata.namespace);
    const before = this.#objects.get(key);
    if (!before) return;
    this.#objects.delete(key);
    this.#rememberGone(before.metadata.uid);
    this.#reindex(key, before, undefined);
    this.#notify({ before, after: undefined });
  }

  #rememberGone(uid = ''): void {
    this.#gone.add(uid);
    const [oldest] = this.#gone;
    if (this.#gone.size > REMEMBERED_GONE && oldest !== undefined) this.#gone.delete(oldest);
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

  #notify(change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#options.log.error({ resource: this.#options.resource, error }, 'listener failed');
      }
    }
  }

  #selector(): Record<string, string> {
    const { labelSelector, fieldSelector } = this.#options;
    return { ...(labelSelector && { labelSelector }), ...(fieldSelector && { fieldSelector }) };
  }
}

/** Removes `managedFields`: they are most of an object's bytes, and no code here reads them. */
function withoutManagers<T extends KubeObject>(object: T): T {
  const { managedFields, ...metadata } = object.metadata as KubeObject['metadata'] & { managedFields?: unknown };
  return managedFields === undefined ? object : { ...object, metadata };
}

const keyOf = (name: string, namespace: string | undefined) => (namespace ? `${namespace}/${name}` : name);

const differs = (a: KubeObject, b: KubeObject) => a.metadata.resourceVersion !== b.metadata.resourceVersion;

/**
 * Compares the versions of two objects. Versions are whole numbers that grow: Kubernetes promises this since 1.35, and
 * earlier servers behave the same.
 */
export function isNewer(object: KubeObject, than: KubeObject): boolean {
  const [a, b] = [object.metadata.resourceVersion ?? '', than.metadata.resourceVersion ?? ''];
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return a !== b;
  return BigInt(a) > BigInt(b);
}
