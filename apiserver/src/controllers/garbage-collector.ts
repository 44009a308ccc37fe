/**
 * Deletes objects whose owners are all deleted, and performs foreground and orphaning deletion. In: every commit of the
 * store. It keeps an index of the dependents of each owner, and checks each affected object separately.
 */
import type { KubeObject, OwnerReference } from '../objects.js';
import { FOREGROUND_FINALIZER, ORPHAN_FINALIZER } from '../resources/deletion.js';
import type { Change, StoredObject } from '../storage/stored-object.js';
import type { Parts } from './parts.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

const OPTIONS = writtenBy('garbage-collector');
const ownersOf = ({ outline }: StoredObject): readonly OwnerReference[] => outline.metadata.ownerReferences ?? [];
const holds = ({ metadata }: KubeObject, finalizer: string) => metadata.finalizers?.includes(finalizer) ?? false;

export class GarbageCollector {
  readonly #parts: Parts;
  readonly #work: Work;
  /** Uids of dependents, by the uid of their owner. */
  readonly #dependents = new Map<string, Set<string>>();
  readonly #observe = (change: Change) => this.#follow(change);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#work = new Work(parts.log, (uid) => this.#look(uid));
  }

  start(): void {
    this.#parts.store.observers.add(this.#observe);
    for (const resource of [...this.#parts.store.resources()]) {
      for (const stored of this.#parts.store.collection(resource).list()) this.#learn(stored);
    }
  }

  stop(): void {
    this.#parts.store.observers.delete(this.#observe);
    this.#work.stop();
  }

  #follow({ type, stored, previous }: Change): void {
    if (previous) for (const { uid } of ownersOf(previous)) this.#unlink(uid, previous);
    if (type !== 'DELETED') return this.#learn(stored);
    for (const uid of this.#dependents.get(stored.outline.metadata.uid) ?? []) this.#work.add(uid);
    // An owner in foreground deletion may have waited for this object.
    for (const { uid } of ownersOf(stored)) if (this.#isWaiting(uid)) this.#work.add(uid);
  }

  #learn(stored: StoredObject): void {
    const { uid, deletionTimestamp } = stored.outline.metadata;
    const owners = ownersOf(stored);
    for (const owner of owners) this.#link(owner.uid, uid);
    const isDeleting =
      deletionTimestamp && (holds(stored.outline, FOREGROUND_FINALIZER) || holds(stored.outline, ORPHAN_FINALIZER));
    if (isDeleting || owners.some((owner) => !this.#isSolid(owner, stored))) this.#work.add(uid);
  }

  #link(owner: string, dependent: string): void {
    const dependents = this.#dependents.get(owner);
    if (dependents) dependents.add(dependent);
    else this.#dependents.set(owner, new Set([dependent]));
  }

  #unlink(owner: string, { outline }: StoredObject): void {
    const dependents = this.#dependents.get(owner);
    dependents?.delete(outline.metadata.uid);
    if (dependents?.size === 0) this.#dependents.delete(owner);
  }

  #isWaiting(uid: string): boolean {
    const owner = this.#parts.store.byUid(uid);
    return owner?.outline.metadata.deletionTimestamp !== undefined && holds(owner.outline, FOREGROUND_FINALIZER);
  }

  /** True if the owner exists and is not deleting its dependents. Unknown kinds count as existing. */
  #isSolid(owner: OwnerReference, dependent: StoredObject): boolean {
    return !this.#isAbsent(owner, dependent) && !this.#isWaiting(owner.uid);
  }

  #isAbsent({ apiVersion, kind, uid, name }: OwnerReference, dependent: StoredObject): boolean {
    const resource = this.#parts.registry.findKind(apiVersion, kind);
    if (!resource) return false;
    const found = this.#parts.store.byUid(uid);
    if (!found || found.resource !== resource.storage || found.name !== name) return true;
    return resource.namespaced && found.namespace !== dependent.namespace;
  }

  async #look(uid: string): Promise<void> {
    const stored = this.#parts.store.byUid(uid);
    if (!stored) return;
    if (stored.outline.metadata.deletionTimestamp) {
      if (holds(stored.outline, ORPHAN_FINALIZER)) return this.#orphan(stored);
      if (holds(stored.outline, FOREGROUND_FINALIZER)) return this.#deleteDependents(stored);
    }
    await this.#collect(stored);
  }

  async #collect(stored: StoredObject): Promise<void> {
    const owners = ownersOf(stored);
    const absent = new Set(owners.filter((owner) => this.#isAbsent(owner, stored)).map(({ uid }) => uid));
    const waiting = owners.filter(({ uid }) => !absent.has(uid) && this.#isWaiting(uid));
    if (absent.size === 0 && waiting.length === 0) return;
    if (absent.size + waiting.length < owners.length) return this.#disown(stored, absent);
    const resource = this.#parts.registry.storedIn(stored.resource);
    if (!resource || stored.outline.metadata.deletionTimestamp) return;
    await remove(this.#parts.writes, resource, stored, waiting.length > 0 ? 'Foreground' : 'Background');
  }

  async #orphan(owner: StoredObject): Promise<void> {
    const { uid } = owner.outline.metadata;
    const dependents = [...(this.#dependents.get(uid) ?? [])].map((dependent) => this.#parts.store.byUid(dependent));
    await Promise.all(dependents.map((dependent) => dependent && this.#disown(dependent, new Set([uid]))));
    await this.#release(owner, ORPHAN_FINALIZER);
  }

  async #deleteDependents(owner: StoredObject): Promise<void> {
    const { uid } = owner.outline.metadata;
    const dependents = [...(this.#dependents.get(uid) ?? [])]
      .map((dependent) => this.#parts.store.byUid(dependent))
      .filter((dependent) => dependent !== undefined);
    await Promise.all(dependents.map((dependent) => this.#collect(dependent)));
    const blocking = dependents.some((dependent) => {
      const blocks = ownersOf(dependent).some((owned) => owned.uid === uid && owned.blockOwnerDeletion);
      return blocks && this.#parts.store.byUid(dependent.outline.metadata.uid) !== undefined;
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

  async #edit({ resource: storage, namespace, name, outline }: StoredObject, change: (draft: KubeObject) => void) {
    const resource = this.#parts.registry.storedIn(storage);
    if (!resource) return;
    const edit = (draft: KubeObject) => {
      if (draft.metadata.uid === outline.metadata.uid) change(draft);
      return draft;
    };
    try {
      await this.#parts.writes.edit({ resource, namespace, subresource: '' }, name, edit, OPTIONS);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
