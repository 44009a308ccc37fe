/** All objects of one resource in memory, their latest changes, and the listeners for new changes. */
import { History } from './history.js';
import type { Change, StoredObject } from './stored-object.js';

const byName = (a: StoredObject, b: StoredObject) =>
  a.namespace === b.namespace ? (a.name < b.name ? -1 : 1) : a.namespace < b.namespace ? -1 : 1;

export class Collection {
  readonly history: History;
  /** Called after each batch of changes. */
  readonly listeners = new Set<() => void>();
  readonly #namespaces = new Map<string, Map<string, StoredObject>>();
  #sorted: StoredObject[] | undefined;

  constructor(complete: number) {
    this.history = new History(complete);
  }

  get(namespace: string, name: string): StoredObject | undefined {
    return this.#namespaces.get(namespace)?.get(name);
  }

  /**
   * Returns the objects, sorted by namespace and name for paging. `namespace` limits the list. The result must not be
   * changed.
   */
  list(namespace?: string): readonly StoredObject[] {
    if (namespace !== undefined) return [...(this.#namespaces.get(namespace)?.values() ?? [])].sort(byName);
    this.#sorted ??= [...this.#namespaces.values()].flatMap((objects) => [...objects.values()]).sort(byName);
    return this.#sorted;
  }

  /** Returns the list at an earlier revision, or undefined if the history does not reach back to it. */
  listAt(revision: number, namespace?: string): readonly StoredObject[] | undefined {
    const from = this.history.after(revision);
    if (from === undefined) return undefined;
    if (from === this.history.end) return this.list(namespace);
    const objects = new Map(this.list(namespace).map((stored) => [`${stored.namespace}/${stored.name}`, stored]));
    for (let position = this.history.end - 1; position >= from; position--) {
      const { stored, previous } = this.history.at(position) as Change;
      if (namespace !== undefined && stored.namespace !== namespace) continue;
      const key = `${stored.namespace}/${stored.name}`;
      if (previous) objects.set(key, previous);
      else objects.delete(key);
    }
    return [...objects.values()].sort(byName);
  }

  /** Adds an object at start, without a change. */
  load(stored: StoredObject): void {
    let objects = this.#namespaces.get(stored.namespace);
    if (!objects) this.#namespaces.set(stored.namespace, (objects = new Map()));
    objects.set(stored.name, stored);
    this.#sorted = undefined;
  }

  apply(change: Change): void {
    const { stored } = change;
    if (change.type === 'DELETED') {
      const objects = this.#namespaces.get(stored.namespace);
      objects?.delete(stored.name);
      if (objects?.size === 0) this.#namespaces.delete(stored.namespace);
      this.#sorted = undefined;
    } else this.load(stored);
    this.history.push(change);
  }
}
