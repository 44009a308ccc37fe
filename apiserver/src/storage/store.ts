/**
 * All objects in memory, written through to Postgres. A write locks its object, reads the latest committed state, and
 * decides the new one. Then it waits for the commit of its batch. Only after the commit do reads and watches see it.
 * Called by `resources/` and the controllers.
 */
import { Counts } from '@slipway/program';
import type { Logger } from 'pino';
import type { KubeObject } from '../objects.js';
import { failure, unavailable } from '../status.js';
import { Collection } from './collection.js';
import { Encryption, type EncryptionKeys } from './encryption.js';
import { Postgres } from './postgres.js';
import { type Change, newVersion, type Place, StoredObject } from './stored-object.js';

const MAX_BATCH = 500;
/** Maximum bytes of a batch, which becomes one statement in one turn of the thread. */
const MAX_BATCH_BYTES = 1024 * 1024;
/** Maximum number of writes that wait for a commit. Further writes are rejected. */
const MAX_WAITING = 5000;

/** The result of a write: a new version, a removal, or no change. */
export type Decision = { put: KubeObject } | { remove: KubeObject } | { keep: StoredObject };

interface Waiting {
  change: Change;
  resolve(stored: StoredObject): void;
  reject(error: Error): void;
}

export interface StoreSettings {
  databaseUrl: string;
  keys: EncryptionKeys;
  log: Logger;
}

export class Store {
  /** The revision of the last commit. */
  revision = 0;
  /** Called for each committed change, in order. */
  readonly observers = new Set<(change: Change) => void>();
  #allocated = 0;
  #origin = 0;
  readonly #postgres: Postgres;
  readonly #log: Logger;
  readonly #collections = new Map<string, Collection>();
  readonly #byUid = new Map<string, StoredObject>();
  readonly #locks = new Map<string, Promise<void>>();
  #waiting: Waiting[] = [];
  #committing = false;
  #idle: Promise<void> = Promise.resolve();
  /** A batch whose commit was not confirmed. Its outcome is known once Postgres is available again. */
  #inDoubt: Waiting[] = [];
  readonly #creating = new Counts();
  onFatal: (error: Error) => void = () => {};

  private constructor(postgres: Postgres, log: Logger) {
    this.#postgres = postgres;
    this.#log = log;
    postgres.onReconnected = (revision) => this.#settle(revision);
  }

  static async open({ databaseUrl, keys, log }: StoreSettings): Promise<Store> {
    const postgres = new Postgres(databaseUrl, new Encryption(keys), log);
    const store = new Store(postgres, log);
    await postgres.open();
    try {
      const loaded: StoredObject[] = [];
      const revision = await postgres.load((row) => {
        const object = JSON.parse(row.bytes.toString()) as KubeObject;
        loaded.push(new StoredObject(row, row.revision, row.bytes, object));
      });
      store.revision = store.#allocated = store.#origin = revision;
      for (const stored of loaded) {
        store.collection(stored.resource).load(stored);
        store.#byUid.set(stored.outline.metadata.uid, stored);
      }
    } catch (error) {
      await postgres.close();
      throw error;
    }
    return store;
  }

  get writable(): boolean {
    return this.#postgres.connected;
  }

  collection(resource: string): Collection {
    let collection = this.#collections.get(resource);
    // Nothing of this resource changed since the start, so its history is complete from there.
    if (!collection) this.#collections.set(resource, (collection = new Collection(this.#origin)));
    return collection;
  }

  /** Returns the names of all resources that have, or had, objects. */
  resources(): Iterable<string> {
    return this.#collections.keys();
  }

  byUid(uid: string): StoredObject | undefined {
    return this.#byUid.get(uid);
  }

  /** True if a creation in this namespace waits for its commit. */
  isCreatingIn(namespace: string): boolean {
    return this.#creating.of(namespace) > 0;
  }

  /** Runs `decide` on the object's committed state, under its lock, and commits the decision. */
  async write(place: Place, decide: (current: StoredObject | undefined) => Decision): Promise<StoredObject> {
    const key = `${place.resource}/${place.namespace}/${place.name}`;
    const before = this.#locks.get(key);
    const mine = Promise.withResolvers<void>();
    this.#locks.set(key, mine.promise);
    if (before) await before;
    try {
      const current = this.collection(place.resource).get(place.namespace, place.name);
      const decision = decide(current);
      if ('keep' in decision) return decision.keep;
      return await this.#stage(place, current, decision);
    } finally {
      if (this.#locks.get(key) === mine.promise) this.#locks.delete(key);
      mine.resolve();
    }
  }

  #stage(place: Place, previous: StoredObject | undefined, decision: Decision): Promise<StoredObject> {
    if (!this.writable) throw unavailable('the database is not reachable: try again');
    if (this.#waiting.length >= MAX_WAITING) {
      throw failure(429, 'TooManyRequests', 'too many writes are waiting, please try again later', {
        retryAfterSeconds: 1,
      });
    }
    const removed = 'remove' in decision;
    const object = removed ? decision.remove : (decision as { put: KubeObject }).put;
    const stored = newVersion(place, ++this.#allocated, object);
    const type = removed ? 'DELETED' : previous ? 'MODIFIED' : 'ADDED';
    if (type === 'ADDED') this.#creating.add(place.namespace);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ change: { type, stored, previous }, resolve, reject });
      if (this.#committing) return;
      this.#committing = true;
      // Requests of the same turn of the event loop share the commit.
      this.#idle = new Promise((idle) => setImmediate(() => void this.#commitAll().then(idle)));
    });
  }

  async #commitAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, lengthOfBatch(this.#waiting));
      const revision = (batch.at(-1) as Waiting).change.stored.revision;
      const rows = batch.map(({ change: { type, stored } }) => ({
        ...{ resource: stored.resource, namespace: stored.namespace, name: stored.name },
        revision: stored.revision,
        bytes: type === 'DELETED' ? undefined : stored.bytes,
      }));
      try {
        await this.#postgres.commit(rows, revision);
        this.#apply(batch);
        for (const { resolve, change } of batch) resolve(change.stored);
      } catch (error) {
        this.#log.error({ reason: (error as Error).message, writes: batch.length }, 'commit failed');
        this.#inDoubt = batch;
        this.#refuse([...batch, ...this.#waiting.splice(0)]);
      }
    }
    this.#committing = false;
  }

  #refuse(writes: Waiting[]): void {
    for (const { change, reject } of writes) {
      this.#forgetCreation(change);
      reject(failure(500, 'InternalError', 'the database did not confirm the write: it may or may not have happened'));
    }
  }

  #forgetCreation({ type, stored: { namespace } }: Change): void {
    if (type === 'ADDED') this.#creating.remove(namespace);
  }

  /** Reports the outcome of the unconfirmed batch. After an outage, the counter shows if it was committed. */
  #settle(revision: number): void {
    const batch = this.#inDoubt;
    this.#inDoubt = [];
    if (revision === this.revision) return;
    if (revision === batch.at(-1)?.change.stored.revision) return this.#apply(batch);
    this.onFatal(new Error('the tables were changed by another program while the connection was lost'));
  }

  #apply(batch: readonly Waiting[]): void {
    const touched = new Set<Collection>();
    for (const { change } of batch) {
      const { stored, type } = change;
      const collection = this.collection(stored.resource);
      collection.apply(change);
      touched.add(collection);
      if (type === 'DELETED') this.#byUid.delete(stored.outline.metadata.uid);
      else this.#byUid.set(stored.outline.metadata.uid, stored);
      this.revision = stored.revision;
      this.#forgetCreation(change);
      for (const observer of this.observers) observer(change);
    }
    for (const collection of touched) for (const listener of collection.listeners) listener();
  }

  /** Waits for the writes in progress. */
  async close(): Promise<void> {
    await this.#idle;
    await this.#postgres.close();
  }
}

/** Returns the number of writes in the next batch: at least one, and as many as the limits allow. */
function lengthOfBatch(waiting: readonly Waiting[]): number {
  let bytes = 0;
  const end = waiting.slice(0, MAX_BATCH).findIndex(({ change }, at) => {
    bytes += change.stored.bytes.length;
    return at > 0 && bytes > MAX_BATCH_BYTES;
  });
  return end < 0 ? Math.min(MAX_BATCH, waiting.length) : end;
}
