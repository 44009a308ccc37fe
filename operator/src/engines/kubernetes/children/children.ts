/**
 * The objects of projects on a cluster: the live ones by watch, and the desired ones by server-side apply. In: the
 * objects that a project needs. Out: writes where a live object differs, and descriptions of changes by others. In a
 * steady state it writes nothing. Called by every part of the Kubernetes engine.
 */

import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf } from '@slipway/installation';
import {
  type Change,
  Informer,
  isInvalid,
  isNewer,
  isNotFound,
  type KubeClient,
  type KubeObject,
} from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { Metrics } from '../../../runtime/metrics.js';
import { objectDifference } from './difference.js';
import { fingerprint } from './fingerprint.js';
import { KINDS, type Kind, keepOf, NAMESPACE, pathOf, pathOfKind, SECRET } from './kinds.js';
import { RecentKeys } from './recent-keys.js';

export interface DesiredObject extends KubeObject {
  apiVersion: string;
  kind: string;
}

export interface ChildrenOptions {
  client: KubeClient;
  metrics: Metrics;
  log: Logger;
  /** Caches that other parts of the operator use too: one watch serves both. */
  secrets: Informer<KubeObject>;
  namespaces: Informer<KubeObject>;
  /** Optional kinds that this cluster serves. */
  optional?: readonly Kind[];
}

/** Annotation with the spec that was last applied to the object. */
const ANNOTATION_APPLIED = 'slipway.dev/applied';
const BY_PROJECT = 'project';
/** Milliseconds after which a write that the watch has not reported counts as undone. */
const UNCONFIRMED_MS = 30_000;
const MEMORY = 20_000;

export class Children {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #kinds = new Map<string, { kind: Kind; informer: Informer<KubeObject> }>();
  readonly #own: Informer<KubeObject>[] = [];
  readonly #listeners: ((ref: string) => void)[] = [];
  /** Objects that we wrote and the watch has not reported yet. */
  readonly #unconfirmed = new RecentKeys<KubeObject>(MEMORY, UNCONFIRMED_MS);
  /** Objects that others deleted, with the owner's uid. For a later owner the object counts as never made. */
  readonly #deleted = new RecentKeys<string>(MEMORY);
  /** Objects that the operator deleted. */
  readonly #unwanted = new RecentKeys<true>(MEMORY);

  constructor({ client, metrics, log, secrets, namespaces, optional = [] }: ChildrenOptions) {
    this.#client = client;
    this.#log = log;
    for (const kind of [...KINDS, ...optional]) {
      const informer = new Informer<KubeObject>({
        client,
        metrics,
        log,
        resource: kind.plural,
        path: pathOfKind(kind),
        labelSelector: `${LABEL_MANAGED_BY}=${MANAGED_BY}`,
        indexes: { [BY_PROJECT]: ({ metadata }) => projectOf(metadata) },
        keep: keepOf(kind),
      });
      this.#own.push(informer);
      this.#follow(kind, informer);
    }
    this.#follow(SECRET, secrets);
    this.#follow(NAMESPACE, namespaces);
  }

  /** Returns the caches of this class, to start and close with the operator's others. */
  informers(): Informer<KubeObject>[] {
    return this.#own;
  }

  serves(kind: string): boolean {
    return this.#kinds.has(kind);
  }

  /** Calls `listener` with a project's ref when one of its objects has changed. */
  onChange(listener: (ref: string) => void): void {
    this.#listeners.push(listener);
  }

  get<T extends KubeObject>(kind: string, namespace: string | undefined, name: string): T | undefined {
    const known = this.#of(kind).informer.get(name, namespace);
    return (this.#unconfirmed.get(keyOf(kind, namespace, name)) ?? known) as T | undefined;
  }

  /** Returns a project's objects of a kind. */
  list<T extends KubeObject>(kind: string, ref: string): T[] {
    return this.#of(kind).informer.find(BY_PROJECT, ref) as T[];
  }

  /** Returns the objects of a kind of all projects. */
  all<T extends KubeObject>(kind: string): T[] {
    const objects = this.#of(kind).informer.list();
    return objects.map(
      (object) => this.#unconfirmed.get(keyOf(kind, object.metadata.namespace, object.metadata.name)) ?? object,
    ) as T[];
  }

  /** Applies the object where it differs. Returns a description of the change by others. Undefined: there was none. */
  async ensure(wanted: DesiredObject): Promise<string | undefined> {
    const { name, namespace } = wanted.metadata;
    const { kind } = this.#of(wanted.kind);
    const key = keyOf(wanted.kind, namespace, name);
    const applied = fingerprint(wanted);
    const desired = marked(wanted, applied);
    const live = this.get(wanted.kind, namespace, name);
    // The object is being deleted. The watch reports when it no longer exists.
    if (live?.metadata.deletionTimestamp) return undefined;
    if (!live) {
      const deleted = this.#deleted.get(key) === ownerOf(wanted);
      await this.#write(kind, key, desired, undefined);
      this.#deleted.delete(key);
      return deleted ? this.#reportRestored(wanted, 'deleted') : undefined;
    }
    const needed = objectDifference({ ...desired }, { ...live }, kind);
    if (!needed) return undefined;
    const edited = live.metadata.annotations?.[ANNOTATION_APPLIED] === applied;
    await this.#write(kind, key, desired, needed);
    return edited ? this.#reportRestored(wanted, 'edited') : undefined;
  }

  /** Deletes the object if it exists. */
  async remove(kind: string, namespace: string | undefined, name: string): Promise<void> {
    const live = this.get(kind, namespace, name);
    if (!live || live.metadata.deletionTimestamp) return;
    const key = keyOf(kind, namespace, name);
    this.#unwanted.set(key, true);
    this.#unconfirmed.delete(key);
    try {
      await this.#client.delete(pathOf(this.#of(kind).kind, name, namespace));
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** Writes the object. `needed`: the merge patch from the live object; undefined: there is no live object. */
  async #write(kind: Kind, key: string, desired: DesiredObject, needed: object | undefined): Promise<void> {
    const path = pathOf(kind, desired.metadata.name, desired.metadata.namespace);
    this.#unwanted.delete(key);
    let written = await this.#apply(path, desired, needed);
    // An apply leaves fields that others added, so a patch removes them.
    const rest = objectDifference({ ...desired }, { ...written }, kind);
    if (rest) written = await this.#client.patch<KubeObject>(path, rest);
    this.#unconfirmed.set(key, keepOf(kind)(written));
  }

  /**
   * Applies the object. Items that others added to a list may make the whole list invalid: then a patch removes them
   * first.
   */
  async #apply(path: string, desired: DesiredObject, needed: object | undefined): Promise<KubeObject> {
    try {
      return await this.#client.apply<KubeObject>(path, desired, FIELD_MANAGER);
    } catch (error) {
      if (!isInvalid(error) || !needed) throw error;
      await this.#client.patch(path, needed);
      return this.#client.apply<KubeObject>(path, desired, FIELD_MANAGER);
    }
  }

  #reportRestored({ kind, metadata }: DesiredObject, what: 'deleted' | 'edited'): string {
    this.#log.warn({ kind, name: metadata.name, namespace: metadata.namespace, what }, 'object restored');
    return `${kind} ${metadata.name}, which was ${what}`;
  }

  #of(kind: string) {
    const known = this.#kinds.get(kind);
    if (!known) throw new Error(`objects of kind ${kind} are not watched: this cluster does not serve them`);
    return known;
  }

  #follow(kind: Kind, informer: Informer<KubeObject>): void {
    this.#kinds.set(kind.kind, { kind, informer });
    informer.onChange((change) => this.#onEvent(kind, change));
  }

  #onEvent({ kind }: Kind, { before, after }: Change<KubeObject>): void {
    const object = (after ?? before) as KubeObject;
    const key = keyOf(kind, object.metadata.namespace, object.metadata.name);
    this.#confirmWrite(key, before, after);
    if (after) {
      this.#deleted.delete(key);
      if (before && isSame(before, after)) return;
    } else if (this.#unwanted.get(key)) this.#unwanted.delete(key);
    else this.#deleted.set(key, ownerOf(object));
    for (const ref of projectOf(object.metadata)) for (const listener of this.#listeners) listener(ref);
  }

  /** Handles an event of the watch, which may be older than our write. */
  #confirmWrite(key: string, before: KubeObject | undefined, after: KubeObject | undefined): void {
    const written = this.#unconfirmed.get(key);
    if (!written) return;
    const isOver = after ? !isNewer(written, after) : written.metadata.uid === before?.metadata.uid;
    if (isOver) this.#unconfirmed.delete(key);
  }
}

const keyOf = (kind: string, namespace: string | undefined, name: string) => `${kind}/${namespace ?? ''}/${name}`;

/**
 * Returns the project that an object's label names. In a project's namespace, only that project counts: its members can
 * set any label on their objects.
 */
export const projectOf = ({ labels, namespace }: KubeObject['metadata']): string[] => {
  const ref = labels?.[LABEL_PROJECT];
  if (!ref || (namespace?.startsWith(namespaceOf('')) && namespace !== namespaceOf(ref))) return [];
  return [ref];
};

const ownerOf = ({ metadata }: KubeObject) => metadata.ownerReferences?.[0]?.uid ?? '';

function marked(wanted: DesiredObject, applied: string): DesiredObject {
  const annotations = { ...wanted.metadata.annotations, [ANNOTATION_APPLIED]: applied };
  return { ...wanted, metadata: { ...wanted.metadata, annotations } };
}

/** True if the cached parts are equal. */
function isSame(before: KubeObject, after: KubeObject): boolean {
  const substance = ({ metadata: { resourceVersion: _version, ...metadata }, ...rest }: KubeObject) => [metadata, rest];
  return isDeepStrictEqual(substance(before), substance(after));
}
