/** Registry of all served resources. It follows committed definitions, so a new one is served at once. */
import type { KubeObject } from '../objects.js';
import type { Store } from '../storage/store.js';
import type { Change } from '../storage/stored-object.js';
import { DEFINITIONS } from './builtin/custom-resource-definition.js';
import { builtins } from './builtin.js';
import { customResources } from './custom.js';
import { apiVersionOf, type Resource } from './resource.js';

export class Registry {
  /** Served resources, by `group/version`, then by plural. */
  readonly #served = new Map<string, Map<string, Resource>>();
  readonly #defined = new Map<string, Resource[]>();
  /** Resources by the collection in which their objects are stored. */
  readonly #stored = new Map<string, Resource>();
  /** Counts changes of the served resources, so that documents made from them can be cached. */
  generation = 0;

  constructor(store: Store) {
    for (const resource of builtins()) this.#add(resource);
    for (const { object } of store.collection(DEFINITIONS).list()) this.#define(object);
    store.observers.add((change) => this.#follow(change));
  }

  find(group: string, version: string, plural: string): Resource | undefined {
    return this.#served.get(apiVersionOf(group, version))?.get(plural);
  }

  /** Returns the resource of the kind in an owner reference. */
  findKind(apiVersion: string, kind: string): Resource | undefined {
    for (const resource of this.#served.get(apiVersion)?.values() ?? []) if (resource.kind === kind) return resource;
    return undefined;
  }

  /** Returns the resource whose objects are in the collection `storage`. */
  storedIn(storage: string): Resource | undefined {
    return this.#stored.get(storage);
  }

  all(): Resource[] {
    return [...this.#served.values()].flatMap((resources) => [...resources.values()]);
  }

  namespaced(): Resource[] {
    return [...this.#stored.values()].filter((resource) => resource.namespaced);
  }

  #follow({ type, stored }: Change): void {
    if (stored.resource !== DEFINITIONS) return;
    for (const resource of this.#defined.get(stored.name) ?? []) this.#remove(resource);
    this.#defined.delete(stored.name);
    if (type !== 'DELETED') this.#define(stored.object);
  }

  #define(definition: KubeObject): void {
    const resources = customResources(definition);
    this.#defined.set(definition.metadata.name, resources);
    for (const resource of resources) this.#add(resource);
  }

  #add(resource: Resource): void {
    this.generation++;
    const { apiVersion, plural, storage, storedApiVersion } = resource;
    const version = this.#served.get(apiVersion) ?? new Map<string, Resource>();
    this.#served.set(apiVersion, version.set(plural, resource));
    if (apiVersion === storedApiVersion || !this.#stored.has(storage)) this.#stored.set(storage, resource);
  }

  #remove({ apiVersion, plural, storage }: Resource): void {
    this.generation++;
    const version = this.#served.get(apiVersion);
    version?.delete(plural);
    if (version?.size === 0) this.#served.delete(apiVersion);
    this.#stored.delete(storage);
  }
}
