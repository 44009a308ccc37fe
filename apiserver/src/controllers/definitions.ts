/** Deletes all objects of a deleted CustomResourceDefinition before it lets go of the definition. */
import type { Logger } from 'pino';
import type { KubeObject } from '../objects.js';
import { CLEANUP_FINALIZER, DEFINITIONS } from '../resources/builtin/custom-resource-definition.js';
import type { Registry } from '../resources/registry.js';
import type { Resource } from '../resources/resource.js';
import type { Writes } from '../resources/writes.js';
import type { Store } from '../storage/store.js';
import type { Change } from '../storage/stored-object.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

export class Definitions {
  readonly #store: Store;
  readonly #registry: Registry;
  readonly #writes: Writes;
  readonly #work: Work;
  readonly #resource: Resource;
  readonly #observe = (change: Change) => this.#follow(change);

  constructor(store: Store, registry: Registry, writes: Writes, log: Logger) {
    this.#store = store;
    this.#registry = registry;
    this.#writes = writes;
    this.#work = new Work(log, (name) => this.#cleanUp(name));
    this.#resource = registry.storedIn(DEFINITIONS) as Resource;
  }

  start(): void {
    this.#store.observers.add(this.#observe);
    for (const { name } of this.#store.collection(DEFINITIONS).list()) this.#work.add(name);
  }

  stop(): void {
    this.#store.observers.delete(this.#observe);
    this.#work.stop();
  }

  /** A definition's name is also the name of the collection that its objects are in. */
  #follow({ stored }: Change): void {
    const name = stored.resource === DEFINITIONS ? stored.name : stored.resource;
    if (this.#isDeleted(name)) this.#work.add(name);
  }

  #isDeleted(name: string): boolean {
    const definition = this.#store.collection(DEFINITIONS).get('', name);
    const { deletionTimestamp, finalizers } = definition?.object.metadata ?? {};
    return deletionTimestamp !== undefined && (finalizers?.includes(CLEANUP_FINALIZER) ?? false);
  }

  async #cleanUp(name: string): Promise<void> {
    if (!this.#isDeleted(name)) return;
    const resource = this.#registry.storedIn(name);
    const objects = this.#store.collection(name);
    if (resource) {
      const present = objects.list().filter(({ object }) => !object.metadata.deletionTimestamp);
      await Promise.all(present.map((stored) => remove(this.#writes, resource, stored, 'Background')));
    }
    if (objects.list().length === 0) await this.#release(name);
  }

  async #release(name: string): Promise<void> {
    const edit = (draft: KubeObject) => {
      draft.metadata.finalizers = (draft.metadata.finalizers ?? []).filter(
        (finalizer) => finalizer !== CLEANUP_FINALIZER,
      );
      return draft;
    };
    const target = { resource: this.#resource, namespace: '', subresource: '' as const };
    try {
      await this.#writes.edit(target, name, edit, writtenBy('apiextensions'));
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
