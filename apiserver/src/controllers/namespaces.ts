/** Sees that the default namespaces are there, and empties a deleted namespace before it lets go of it. */
import type { Logger } from 'pino';
import { type KubeObject, timestamp } from '../objects.js';
import { NAMESPACE_FINALIZER, namespaceFinalizers } from '../resources/builtin/namespace.js';
import type { Registry } from '../resources/registry.js';
import type { Resource } from '../resources/resource.js';
import type { Writes } from '../resources/writes.js';
import type { Store } from '../storage/store.js';
import type { Change, StoredObject } from '../storage/stored-object.js';
import { isOvertaken, remove, writtenBy } from './remove.js';
import { Work } from './work.js';

const DEFAULT_NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];
const OPTIONS = writtenBy('namespace-controller');

export class Namespaces {
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
    this.#work = new Work(log, (name) => this.#empty(name));
    this.#resource = registry.find('', 'v1', 'namespaces') as Resource;
  }

  async start(): Promise<void> {
    const collection = this.#store.collection('namespaces');
    const target = { resource: this.#resource, namespace: '', subresource: '' as const };
    for (const name of DEFAULT_NAMESPACES) {
      if (!collection.get('', name)) await this.#writes.create(target, { metadata: { name } }, writtenBy('apiserver'));
    }
    this.#store.observers.add(this.#observe);
    for (const { name } of collection.list()) if (this.#isTerminating(name)) this.#work.add(name);
  }

  stop(): void {
    this.#store.observers.delete(this.#observe);
    this.#work.stop();
  }

  #follow({ stored, type }: Change): void {
    const name = stored.resource === 'namespaces' ? stored.name : stored.namespace;
    // What is left may have finalizers: its removal is the next occasion to look.
    const matters = stored.resource === 'namespaces' || type !== 'MODIFIED';
    if (name !== '' && matters && this.#isTerminating(name)) this.#work.add(name);
  }

  #isTerminating(name: string): boolean {
    const found = this.#store.collection('namespaces').get('', name);
    return found?.object.metadata.deletionTimestamp !== undefined;
  }

  async #empty(name: string): Promise<void> {
    const found = this.#store.collection('namespaces').get('', name);
    if (!found?.object.metadata.deletionTimestamp) return;
    if (!namespaceFinalizers(found.object).includes(NAMESPACE_FINALIZER)) return;
    const contents = () => this.#contents(name);
    await Promise.all(contents().map(([resource, stored]) => this.#delete(resource, stored)));
    const left = contents();
    if (left.length > 0)
      return this.#report(
        name,
        left.map(([, stored]) => stored),
      );
    // A creation that was under way when the deletion was committed is seen, and deleted, when it is committed.
    if (!this.#store.isCreatingIn(name)) await this.#finalize(name);
  }

  #contents(name: string): [Resource, StoredObject][] {
    return this.#registry.namespaced().flatMap((resource) =>
      this.#store
        .collection(resource.storage)
        .list(name)
        .map((stored): [Resource, StoredObject] => [resource, stored]),
    );
  }

  async #delete(resource: Resource, stored: StoredObject): Promise<void> {
    if (!stored.object.metadata.deletionTimestamp) await remove(this.#writes, resource, stored, 'Background');
  }

  async #finalize(name: string): Promise<void> {
    await this.#edit(name, 'finalize', (draft) => {
      const others = namespaceFinalizers(draft).filter((finalizer) => finalizer !== NAMESPACE_FINALIZER);
      draft.spec = others.length > 0 ? { finalizers: others } : {};
    });
  }

  /** Says what keeps the namespace, for whoever waits for its end. */
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
          for (const { object } of left) for (const finalizer of object.metadata.finalizers ?? []) add(finalizer, 'in');
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
      await this.#writes.edit({ resource: this.#resource, namespace: '', subresource }, name, edit, OPTIONS);
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

/** A condition that says the same as before keeps its time, so that a repeated report is no change. */
function kept({ status }: KubeObject, conditions: readonly ReturnType<typeof remaining>[]) {
  const before = (status as { conditions?: ReturnType<typeof remaining>[] } | undefined)?.conditions ?? [];
  return conditions.map(
    (now) => before.find(({ type, message }) => type === now.type && message === now.message) ?? now,
  );
}
