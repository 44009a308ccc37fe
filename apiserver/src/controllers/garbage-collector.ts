/**
 * Deletes objects whose owners are all gone, and carries out foreground and orphaning deletion. It learns of every
 * commit from the store, keeps who depends on whom, and looks at each object concerned on its own.
 */
import type { Logger } from 'pino';
import type { KubeObject, OwnerReference } from '../objects.js';
import type { Registry } from '../resources/registry.js';
import { FOREGROUND_FINALIZER, ORPHAN_FINALIZER, type Writes } from '../resources/writes.js';
import type { Store } from '../storage/store.js';
import type { Change, StoredObject } from '../storage/stored-object.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

const OPTIONS = writtenBy('garbage-collector');
const ownersOf = ({ object }: StoredObject): readonly OwnerReference[] => object.metadata.ownerReferences ?? [];
const holds = ({ metadata }: KubeObject, finalizer: string) => metadata.finalizers?.includes(finalizer) ?? false;

export class GarbageCollector {
  readonly #store: Store;
  readonly #registry: Registry;
  readonly #writes: Writes;
  readonly #work: Work;
  /** Uids of dependents by uid of owner. */
  readonly #dependents = new Map<string, Set<string>>();
  readonly #observe = (change: Change) => this.#follow(change);

  constructor(store: Store, registry: Registry, writes: Writes, log: Logger) {
    this.#store = store;
    this.#registry = registry;
    this.#writes = writes;
    this.#work = new Work(log, (uid) => this.#look(uid));
  }

  start(): void {
    this.#store.observers.add(this.#observe);
    for (const resource of [...this.#store.resources()]) {
      for (const stored of this.#store.collection(resource).list()) this.#learn(stored);
    }
  }

  stop(): void {
    this.#store.observers.delete(this.#observe);
    this.#work.stop();
  }

  #follow({ type, stored, previous }: Change): void {
    if (previous) for (const { uid } of ownersOf(previous)) this.#unlink(uid, previous);
    if (type !== 'DELETED') return this.#learn(stored);
    for (const uid of this.#dependents.get(stored.object.metadata.uid) ?? []) this.#work.add(uid);
    // An owner in foreground deletion may have waited for this one.
    for (const { uid } of ownersOf(stored)) if (this.#isWaiting(uid)) this.#work.add(uid);
  }

  #learn(stored: StoredObject): void {
    const { uid, deletionTimestamp } = stored.object.metadata;
    const owners = ownersOf(stored);
    for (const owner of owners) this.#link(owner.uid, uid);
    const isDeleting =
      deletionTimestamp && (holds(stored.object, FOREGROUND_FINALIZER) || holds(stored.object, ORPHAN_FINALIZER));
    if (isDeleting || owners.some((owner) => !this.#isSolid(owner, stored))) this.#work.add(uid);
  }

  #link(owner: string, dependent: string): void {
    const dependents = this.#dependents.get(owner);
    if (dependents) dependents.add(dependent);
    else this.#dependents.set(owner, new Set([dependent]));
  }

  #unlink(owner: string, { object }: StoredObject): void {
    const dependents = this.#dependents.get(owner);
    dependents?.delete(object.metadata.uid);
    if (dependents?.size === 0) this.#dependents.delete(owner);
  }

  #isWaiting(uid: string): boolean {
    const owner = this.#store.byUid(uid);
    return owner?.object.metadata.deletionTimestamp !== undefined && holds(owner.object, FOREGROUND_FINALIZER);
  }

  /** An owner that is there and not deleting its dependents. Of a kind that isn't served nothing is known. */
  #isSolid(owner: OwnerReference, dependent: StoredObject): boolean {
    return !this.#isAbsent(owner, dependent) && !this.#isWaiting(owner.uid);
  }

  #isAbsent({ apiVersion, kind, uid, name }: OwnerReference, dependent: StoredObject): boolean {
    const resource = this.#registry.findKind(apiVersion, kind);
    if (!resource) return false;
    const found = this.#store.byUid(uid);
    if (!found || found.resource !== resource.storage || found.name !== name) return true;
    return resource.namespaced && found.namespace !== dependent.namespace;
  }

  async #look(uid: string): Promise<void> {
    const stored = this.#store.byUid(uid);
    if (!stored) return;
    if (stored.object.metadata.deletionTimestamp) {
      if (holds(stored.object, ORPHAN_FINALIZER)) return this.#orphan(stored);
      if (holds(stored.object, FOREGROUND_FINALIZER)) return this.#deleteDependents(stored);
    }
    await this.#collect(stored);
  }

  async #collect(stored: StoredObject): Promise<void> {
    const owners = ownersOf(stored);
    const absent = new Set(owners.filter((owner) => this.#isAbsent(owner, stored)).map(({ uid }) => uid));
    const waiting = owners.filter(({ uid }) => !absent.has(uid) && this.#isWaiting(uid));
    if (absent.size === 0 && waiting.length === 0) return;
    if (absent.size + waiting.length < owners.length) return this.#disown(stored, absent);
    const resource = this.#registry.storedIn(stored.resource);
    if (!resource || stored.object.metadata.deletionTimestamp) return;
    await remove(this.#writes, resource, stored, waiting.length > 0 ? 'Foreground' : 'Background');
  }

  async #orphan(owner: StoredObject): Promise<void> {
    const { uid } = owner.object.metadata;
    const dependents = [...(this.#dependents.get(uid) ?? [])].map((dependent) => this.#store.byUid(dependent));
    await Promise.all(dependents.map((dependent) => dependent && this.#disown(dependent, new Set([uid]))));
    await this.#release(owner, ORPHAN_FINALIZER);
  }

  async #deleteDependents(owner: StoredObject): Promise<void> {
    const { uid } = owner.object.metadata;
    const dependents = [...(this.#dependents.get(uid) ?? [])]
      .map((dependent) => this.#store.byUid(dependent))
      .filter((dependent) => dependent !== undefined);
    await Promise.all(dependents.map((dependent) => this.#collect(dependent)));
    const blocking = dependents.some((dependent) => {
      const blocks = ownersOf(dependent).some((owned) => owned.uid === uid && owned.blockOwnerDeletion);
      return blocks && this.#store.byUid(dependent.object.metadata.uid) !== undefined;
    });
    if (!blocking) await this.#release(owner, FOREGROUND_FINALIZER);
  }

  async #disown(dependent: StoredObject, owners: ReadonlySet<string>): Promise<void> {
    await this.#edit(dependent, ({ metadata }) => {
      const kept = (metadata.ownerReferences ?? []).filter(({ uid }) => !owners.has(uid));
      if (kept.length > 0) metadata.ownerReferences = kept;
      else delete metadata.ownerReferences;
    });
  }

  async #release(owner: StoredObject, finalizer: string): Promise<void> {
    await this.#edit(owner, ({ metadata }) => {
      metadata.finalizers = (metadata.finalizers ?? []).filter((name) => name !== finalizer);
    });
  }

  async #edit({ resource: storage, namespace, name, object }: StoredObject, change: (draft: KubeObject) => void) {
    const resource = this.#registry.storedIn(storage);
    if (!resource) return;
    const edit = (draft: KubeObject) => {
      if (draft.metadata.uid === object.metadata.uid) change(draft);
      return draft;
    };
    try {
      await this.#writes.edit({ resource, namespace, subresource: '' }, name, edit, OPTIONS);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
