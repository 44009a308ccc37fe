/** Creates the default namespaces, and empties a deleted namespace before it removes its finalizer. */
import { type KubeObject, timestamp } from '../objects.js';
import { NAMESPACE_FINALIZER, namespaceFinalizers } from '../resources/builtin/namespace.js';
import type { Resource } from '../resources/resource.js';
import type { Change, StoredObject } from '../storage/stored-object.js';
import type { Parts } from './parts.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

const DEFAULT_NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];
const OPTIONS = writtenBy('namespace-controller');

export class Namespaces {
  readonly #parts: Parts;
  readonly #work: Work;
  readonly #resource: Resource;
  readonly #observe = (change: Change) => this.#follow(change);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#work = new Work(parts.log, (name) => this.#empty(name));
    this.#resource = parts.registry.find('', 'v1', 'namespaces') as Resource;
  }

  async start(): Promise<void> {
    const collection = this.#parts.store.collection('namespaces');
    const target = { resource: this.#resource, namespace: '', subresource: '' as const };
    for (const name of DEFAULT_NAMESPACES) {
      if (!collection.get('', name))
        await this.#parts.writes.create(target, { metadata: { name } }, writtenBy('apiserver'));
    }
    this.#parts.store.observers.add(this.#observe);
    for (const { name } of collection.list()) if (this.#isTerminating(name)) this.#work.add(name);
  }

  stop(): void {
    this.#parts.store.observers.delete(this.#observe);
    this.#work.stop();
  }

  #follow({ stored, type }: Change): void {
    const name = stored.resource === 'namespaces' ? stored.name : stored.namespace;
    // Remaining objects may have finalizers. The namespace is checked again when they are removed.
    const matters = stored.resource === 'namespaces' || type !== 'MODIFIED';
    if (name !== '' && matters && this.#isTerminating(name)) this.#work.add(name);
  }

  #isTerminating(name: string): boolean {
    const found = this.#parts.store.collection('namespaces').get('', name);
    return found?.outline.metadata.deletionTimestamp !== undefined;
  }

  async #empty(name: string): Promise<void> {
    const found = this.#parts.store.collection('namespaces').get('', name);
    if (!found?.outline.metadata.deletionTimestamp) return;
    if (!namespaceFinalizers(found.outline).includes(NAMESPACE_FINALIZER)) return;
    const contents = () => this.#contents(name);
    await Promise.all(contents().map(([resource, stored]) => this.#delete(resource, stored)));
    const left = contents();
    if (left.length > 0)
      return this.#report(
        name,
        left.map(([, stored]) => stored),
      );
    // If a creation was in progress when the deletion was committed, its object is found and deleted after its commit.
    if (!this.#parts.store.isCreatingIn(name)) await this.#finalize(name);
  }

  #contents(name: string): [Resource, StoredObject][] {
    return this.#parts.registry.namespaced().flatMap((resource) =>
      this.#parts.store
        .collection(resource.storage)
        .list(name)
        .map((stored): [Resource, StoredObject] => [resource, stored]),
    );
  }

  async #delete(resource: Resource, stored: StoredObject): Promise<void> {
    if (!stored.outline.metadata.deletionTimestamp) await remove(this.#parts.writes, resource, stored, 'Background');
  }

  async #finalize(name: string): Promise<void> {
    await this.#edit(name, 'finalize', (draft) => {
      const others = namespaceFinalizers(draft).filter((finalizer) => finalizer !== NAMESPACE_FINALIZER);
      draft.spec = others.length > 0 ? { finalizers: others } : {};
    });
  }

  /** Writes conditions that list the remaining content of the namespace. */
  async #report(name: string, left: readonly StoredObject[]): Promise<void> {
    const conditions = [
      remaining('NamespaceContentRemaining', 'SomeResourcesRemain', 'Some resources are remaining: ', (add) => {
        for (const { resource } of left) add(resource, 'has');
      }),
      remaining(
        'NamespaceFinalizersRemaining',
        'SomeFinalizersRemain',
        'Some content in the namespace has finalizers remaining: ',
        (add) => {
          for (const { outline } of left)
            for (const finalizer of outline.metadata.finalizers ?? []) add(finalizer, 'in');
        },
      ),
    ];
    await this.#edit(name, 'status', (draft) => {
      draft.status = { ...(draft.status as object), conditions: kept(draft, conditions) };
    });
  }

  async #edit(name: string, subresource: 'status' | 'finalize', change: (draft: KubeObject) => void): Promise<void> {
    const edit = (draft: KubeObject) => {
      change(draft);
      return draft;
    };
    try {
      await this.#parts.writes.edit({ resource: this.#resource, namespace: '', subresource }, name, edit, OPTIONS);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}

type Count = (what: string, relation: string) => void;

function remaining(type: string, reason: string, head: string, count: (add: Count) => void) {
  const counts = new Map<string, number>();
  const relations = new Map<string, string>();
  count((what, relation) => {
    counts.set(what, (counts.get(what) ?? 0) + 1);
    relations.set(what, relation);
  });
  const parts = [...counts].map(([what, number]) =>
    relations.get(what) === 'has'
      ? `${what} has ${number} resource instances`
      : `${what} in ${number} resource instances`,
  );
  return {
    type,
    status: 'True',
    lastTransitionTime: timestamp(new Date()),
    reason,
    message: head + parts.sort().join(', '),
  };
}

/** Returns the old condition if only its time differs, so that a repeated report changes nothing. */
function kept({ status }: KubeObject, conditions: readonly ReturnType<typeof remaining>[]) {
  const before = (status as { conditions?: ReturnType<typeof remaining>[] } | undefined)?.conditions ?? [];
  return conditions.map(
    (now) => before.find(({ type, message }) => type === now.type && message === now.message) ?? now,
  );
}
