/** Deletes all objects of a deleted CustomResourceDefinition, and then removes its finalizer from the definition. */
import type { KubeObject } from '../objects.js';
import { CLEANUP_FINALIZER, DEFINITIONS } from '../resources/builtin/custom-resource-definition.js';
import type { Resource } from '../resources/resource.js';
import type { Change } from '../storage/stored-object.js';
import type { Parts } from './parts.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

export class Definitions {
  readonly #parts: Parts;
  readonly #work: Work;
  readonly #resource: Resource;
  readonly #observe = (change: Change) => this.#follow(change);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#work = new Work(parts.log, (name) => this.#cleanUp(name));
    this.#resource = parts.registry.storedIn(DEFINITIONS) as Resource;
  }

  start(): void {
    this.#parts.store.observers.add(this.#observe);
    for (const { name } of this.#parts.store.collection(DEFINITIONS).list()) this.#work.add(name);
  }

  stop(): void {
    this.#parts.store.observers.delete(this.#observe);
    this.#work.stop();
  }

  /** A definition has the same name as the collection of its objects. */
  #follow({ stored }: Change): void {
    const name = stored.resource === DEFINITIONS ? stored.name : stored.resource;
    if (this.#isDeleted(name)) this.#work.add(name);
  }

  #isDeleted(name: string): boolean {
    const definition = this.#parts.store.collection(DEFINITIONS).get('', name);
    const { deletionTimestamp, finalizers } = definition?.outline.metadata ?? {};
    return deletionTimestamp !== undefined && (finalizers?.includes(CLEANUP_FINALIZER) ?? false);
  }

  async #cleanUp(name: string): Promise<void> {
    if (!this.#isDeleted(name)) return;
    const resource = this.#parts.registry.storedIn(name);
    const objects = this.#parts.store.collection(name);
    if (resource) {
      const present = objects.list().filter(({ outline }) => !outline.metadata.deletionTimestamp);
      await Promise.all(present.map((stored) => remove(this.#parts.writes, resource, stored, 'Background')));
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
      await this.#parts.writes.edit(target, name, edit, writtenBy('apiextensions'));
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
