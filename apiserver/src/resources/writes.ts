/**
 * The rules of writing an object, the same for every resource: which fields a client may set, which the server sets,
 * and when a write is rejected. In: the decoded request. Out: the committed version, or an ApiError. Called by `http/`
 * and the controllers.
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { applyServerSide, trackUpdate } from '../fieldmanager/index.js';
import { copy, type KubeObject, type ObjectMeta, timestamp } from '../objects.js';
import { invalid, type JsonObject, validateObjectMeta } from '../schema/index.js';
import {
  ApiError,
  alreadyExists,
  badRequest,
  conflict,
  failure,
  forbidden,
  MODIFIED,
  methodNotAllowed,
  notFound,
} from '../status.js';
import type { Decision, Store } from '../storage/store.js';
import { bytesOf, newVersion, StoredObject } from '../storage/stored-object.js';
import { DEFINITIONS } from './builtin/custom-resource-definition.js';
import { type Decoding, decode } from './decode.js';
import { type DeleteOptions, isReleased, markDeleted } from './deletion.js';
import { isSame, keepServerMetadata, mergeParts, wantsOther } from './merge.js';
import { generateName, matchName, matchNamespace } from './object-names.js';
import { checkDeletePreconditions, checkPreconditions, versionRequired } from './preconditions.js';
import { hasStatus, type Resource } from './resource.js';
import type { WriteTarget } from './write-target.js';

const GENERATE_ATTEMPTS = 8;

export interface WriteOptions extends Decoding {
  dryRun: boolean;
  /** The manager for managedFields: the parameter fieldManager, or the first word of the user agent. */
  manager: string;
}

export interface Written {
  stored: StoredObject;
  created: boolean;
}

/** The outcome of a deletion. */
export interface Deleted {
  stored: StoredObject;
  isRemoved: boolean;
}

/** Changes a copy of the old state into the new state. */
export type Edit = (draft: KubeObject) => unknown;

export class Writes {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async create(target: WriteTarget, body: unknown, options: WriteOptions): Promise<Written> {
    const object = decode(target.resource, body, options);
    const { metadata } = object;
    if (metadata.name || !metadata.generateName) return this.#createNamed(target, object, options);
    for (let attempt = 1; ; attempt++) {
      const draft = attempt === GENERATE_ATTEMPTS ? object : copy(object);
      draft.metadata.name = generateName(metadata.generateName);
      try {
        return await this.#createNamed(target, draft, options);
      } catch (error) {
        const taken = error instanceof ApiError && error.status.code === 409;
        if (!taken || attempt === GENERATE_ATTEMPTS) throw error;
      }
    }
  }

  async #createNamed(target: WriteTarget, object: KubeObject, options: WriteOptions): Promise<Written> {
    const { resource, namespace } = target;
    const prepared = this.#prepareNew(target, object);
    const tracked = trackUpdate({ ...tracking(target, options), before: undefined, after: prepared }) as KubeObject;
    const { name } = tracked.metadata;
    const decide = (current: StoredObject | undefined): Decision => {
      if (current) throw alreadyExists(resource, name);
      this.#checkNamespace(target, name);
      return { put: tracked };
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created: true };
  }

  /** Sets the server's fields of a new object. Throws if the object is invalid. */
  #prepareNew(target: WriteTarget, object: KubeObject): KubeObject {
    const { resource, namespace } = target;
    const { metadata } = object;
    matchNamespace(target, metadata);
    if (metadata.resourceVersion) throw failure(500, '', 'resourceVersion should not be set on objects to be created');
    this.#checkNamespace(target, metadata.name ?? '');
    if (resource.namespaced) metadata.namespace = namespace;
    else delete metadata.namespace;
    metadata.uid = randomUUID();
    metadata.creationTimestamp = timestamp(new Date());
    delete metadata.deletionTimestamp;
    delete metadata.deletionGracePeriodSeconds;
    if (resource.generation) metadata.generation = 1;
    else delete metadata.generation;
    if (resource.custom && hasStatus(resource)) delete object.status;
    resource.strategy.prepareCreate?.(object);
    check(resource, object, undefined);
    return stampVersion(resource, object);
  }

  #checkNamespace({ resource, namespace }: WriteTarget, name: string): void {
    if (resource.custom) this.#checkDefinition(resource);
    if (!resource.namespaced) return;
    const owner = this.#store.collection('namespaces').get('', namespace);
    if (!owner) throw notFound({ group: '', plural: 'namespaces' }, namespace);
    if (!owner.outline.metadata.deletionTimestamp) return;
    throw forbidden(
      resource,
      name,
      `unable to create new content in namespace ${namespace} because it is being terminated`,
      [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    );
  }

  #checkDefinition({ storage }: Resource): void {
    const definition = this.#store.collection(DEFINITIONS).get('', storage);
    if (definition?.outline.metadata.deletionTimestamp) throw methodNotAllowed();
  }

  /** Replaces the object by the client's version. */
  async update(target: WriteTarget, name: string, body: unknown, options: WriteOptions): Promise<Written> {
    const { resource, namespace } = target;
    const incoming = decode(resource, body, options);
    matchName(incoming.metadata, name);
    matchNamespace(target, incoming.metadata);
    const sentVersion = incoming.metadata.resourceVersion;
    let created = false;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current) {
        if (!resource.createOnUpdate || target.subresource !== '') throw notFound(resource, name);
        created = true;
        if (sentVersion) throw conflict(resource, name, MODIFIED);
        const prepared = this.#prepareNew(target, incoming);
        return { put: trackUpdate({ ...tracking(target, options), before: undefined, after: prepared }) as KubeObject };
      }
      if (!sentVersion && !resource.unconditionalUpdate) throw versionRequired(resource, name);
      return this.#replace(target, { current, old: current.object }, incoming, options);
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created };
  }

  /** Changes the object by an edit of its latest state. */
  async edit(target: WriteTarget, name: string, edit: Edit, options: WriteOptions): Promise<Written> {
    const { resource, namespace } = target;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current) throw notFound(resource, name);
      const old = current.object;
      const draft = copy(old);
      draft.apiVersion = resource.apiVersion;
      const edited = decode(resource, edit(draft), options);
      matchName(edited.metadata, name);
      matchNamespace(target, edited.metadata);
      return this.#replace(target, { current, old }, edited, options);
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created: false };
  }

  /** Performs a server-side apply, which creates the object if it is missing. */
  async apply(
    target: WriteTarget,
    name: string,
    applied: JsonObject,
    options: WriteOptions & { force: boolean },
  ): Promise<Written> {
    const { resource, namespace } = target;
    const sent = decodeApplied(target, name, applied, options);
    let created = false;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current && target.subresource !== '') throw notFound(resource, name);
      const old = current?.object;
      const live = old && { ...old, apiVersion: resource.apiVersion };
      const { object, conflicts } = applyServerSide({
        ...tracking(target, options),
        live,
        applied: sent,
        force: options.force,
      });
      if (conflicts) throw new ApiError(conflicts);
      const merged = copy(object) as KubeObject;
      resource.schema.applyDefaults(merged);
      if (current && old) return this.#replace(target, { current, old }, merged, options, true);
      created = true;
      return { put: this.#prepareNew(target, merged) };
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created };
  }

  /** Completes an update, after the new state was computed. `old` is the current object, decoded. */
  #replace(
    target: WriteTarget,
    { current, old }: { current: StoredObject; old: KubeObject },
    incoming: KubeObject,
    options: WriteOptions,
    tracked = false,
  ): Decision {
    const { resource } = target;
    checkPreconditions(resource, current, incoming.metadata);
    let object = mergeParts(target, old, incoming);
    keepServerMetadata(object.metadata, old.metadata);
    if (target.subresource === '') resource.strategy.prepareUpdate?.(object, old);
    check(resource, object, old);
    if (resource.generation && target.subresource === '' && wantsOther(resource, object, old)) {
      object.metadata.generation = (old.metadata.generation ?? 0) + 1;
    }
    stampVersion(resource, object);
    if (!tracked) object = trackUpdate({ ...tracking(target, options), before: old, after: object }) as KubeObject;
    if (isReleased(object)) return { remove: { ...object, metadata: { ...object.metadata } } };
    return isSame(object, old) ? { keep: current } : { put: object };
  }

  /** Marks the object as deleted, or removes it if it has no finalizers. */
  async delete(target: WriteTarget, name: string, options: DeleteOptions): Promise<Deleted> {
    const { resource, namespace } = target;
    let isRemoved = false;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current) throw notFound(resource, name);
      checkDeletePreconditions(resource, current, options.preconditions);
      const old = current.object;
      const object = markDeleted(resource, old, options);
      isRemoved = isReleased(object);
      if (isRemoved) return { remove: object };
      return isDeepStrictEqual(object, old) ? { keep: current } : { put: object };
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, isRemoved };
  }

  async #commit(
    place: { resource: string; namespace: string; name: string },
    { dryRun }: { dryRun: boolean },
    decide: (current: StoredObject | undefined) => Decision,
  ): Promise<StoredObject> {
    if (!dryRun) return this.#store.write(place, decide);
    const current = this.#store.collection(place.resource).get(place.namespace, place.name);
    const decision = decide(current);
    if ('keep' in decision) return decision.keep;
    const object = copy('put' in decision ? decision.put : decision.remove);
    const stored = newVersion(place, current?.revision ?? 0, object);
    if (current) return stored;
    object.metadata.resourceVersion = '';
    const { resourceVersion: _, ...metadata } = object.metadata;
    return new StoredObject(place, stored.revision, bytesOf(JSON.stringify({ ...object, metadata })), object);
  }
}

const tracking = ({ resource, subresource }: WriteTarget, { manager }: WriteOptions) => ({
  manager,
  apiVersion: resource.apiVersion,
  subresource,
  schema: resource.applySchema,
  now: new Date(),
});

function decodeApplied({ resource, namespace }: WriteTarget, name: string, applied: JsonObject, options: WriteOptions) {
  const metadata = (applied.metadata ??= {}) as ObjectMeta;
  if (metadata.managedFields?.length) throw badRequest('metadata.managedFields must be nil');
  if (!applied.apiVersion || !applied.kind) throw badRequest('invalid object type: apiVersion and kind must be set');
  const sent = copy(applied);
  // Defaults come from the server, not from the applier, so the applier must not own them.
  const object = decode(resource, applied, options);
  matchName(object.metadata, name);
  matchNamespace({ resource, namespace, subresource: '' }, object.metadata);
  resource.schema.prune(sent);
  const sentMetadata = sent.metadata as ObjectMeta;
  sentMetadata.name = name;
  if (resource.namespaced) sentMetadata.namespace = namespace;
  return sent;
}

function check(resource: Resource, object: KubeObject, old: KubeObject | undefined): void {
  const { namespaced, nameRule: name } = resource;
  const errors = [
    ...validateObjectMeta(object.metadata, { namespaced, name }, old?.metadata),
    ...(resource.custom ? resource.schema.validate(object, old) : []),
    ...(resource.strategy.validate?.(object, old) ?? []),
  ];
  if (errors.length > 0) throw new ApiError(invalid(resource, object.metadata.name ?? '', errors));
}

/** Sets the resource's apiVersion. Stored versions differ only in apiVersion. */
function stampVersion(resource: Resource, object: KubeObject): KubeObject {
  object.apiVersion = resource.storedApiVersion;
  return object;
}
