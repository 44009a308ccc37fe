/**
 * The rules of writing one object, for every resource alike: what a client may set, what the server sets, and when a
 * write is refused. In: the request, decoded. Out: the committed version, or an ApiError. Called by `http/` and the
 * controllers.
 */
import { randomInt, randomUUID } from 'node:crypto';
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
import { newVersion, type StoredObject } from '../storage/stored-object.js';
import { DEFINITIONS } from './builtin/custom-resource-definition.js';
import { type Decoding, decode } from './decode.js';
import { hasStatus, type Resource } from './resource.js';

/** Suffixes of generateName, as the real server draws them: no vowels, so no words. */
const SUFFIX_LETTERS = 'bcdfghjklmnpqrstvwxz2456789';
const MAX_PREFIX = 58;
const GENERATE_ATTEMPTS = 8;

export interface WriteTarget {
  resource: Resource;
  namespace: string;
  subresource: '' | 'status' | 'finalize';
}

export interface WriteOptions extends Decoding {
  dryRun: boolean;
  /** For managedFields: the fieldManager parameter, or the first word of the user agent. */
  manager: string;
}

export interface Written {
  stored: StoredObject;
  created: boolean;
}

/** The outcome of a deletion. */
export interface Deleted {
  stored: StoredObject;
  gone: boolean;
}

/** Makes the new state out of a copy of the old one that may be changed. */
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

  /** Fills what the server sets on a new object, and refuses one that is wrong. */
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
    if (!owner.object.metadata.deletionTimestamp) return;
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
    if (definition?.object.metadata.deletionTimestamp) throw methodNotAllowed();
  }

  /** Replaces the object by what the client sent. */
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
      return this.#replace(target, current, incoming, options);
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created };
  }

  /** Changes the object by an edit of its latest state. */
  async edit(target: WriteTarget, name: string, edit: Edit, options: WriteOptions): Promise<Written> {
    const { resource, namespace } = target;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current) throw notFound(resource, name);
      const draft = JSON.parse(current.json) as KubeObject;
      draft.apiVersion = resource.apiVersion;
      const edited = decode(resource, edit(draft), options);
      matchName(edited.metadata, name);
      matchNamespace(target, edited.metadata);
      return this.#replace(target, current, edited, options);
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created: false };
  }

  /** Server-side apply, which creates the object where there is none. */
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
      const live = current && { ...current.object, apiVersion: resource.apiVersion };
      const { object, conflicts } = applyServerSide({
        ...tracking(target, options),
        live,
        applied: sent,
        force: options.force,
      });
      if (conflicts) throw new ApiError(conflicts);
      const merged = copy(object) as KubeObject;
      resource.schema.applyDefaults(merged);
      if (current) return this.#replace(target, current, merged, options, true);
      created = true;
      return { put: this.#prepareNew(target, merged) };
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, created };
  }

  /** Completes an update, however the new state was computed. */
  #replace(
    target: WriteTarget,
    current: StoredObject,
    incoming: KubeObject,
    options: WriteOptions,
    tracked = false,
  ): Decision {
    const { resource } = target;
    const old = current.object;
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

  /** Marks the object as deleted, or removes it when nothing holds it back. */
  async delete(target: WriteTarget, name: string, options: DeleteOptions): Promise<Deleted> {
    const { resource, namespace } = target;
    let gone = false;
    const decide = (current: StoredObject | undefined): Decision => {
      if (!current) throw notFound(resource, name);
      checkDeletePreconditions(resource, current, options.preconditions);
      const object = markDeleted(resource, current.object, options);
      gone = isReleased(object);
      if (gone) return { remove: object };
      return isDeepStrictEqual(object, current.object) ? { keep: current } : { put: object };
    };
    const stored = await this.#commit({ resource: resource.storage, namespace, name }, options, decide);
    return { stored, gone };
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
    return { ...stored, object, json: JSON.stringify({ ...object, metadata }) };
  }
}

export interface DeleteOptions {
  dryRun: boolean;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan' | undefined;
  preconditions?: { uid?: string | undefined; resourceVersion?: string | undefined } | undefined;
}

export const FOREGROUND_FINALIZER = 'foregroundDeletion';
export const ORPHAN_FINALIZER = 'orphan';

function markDeleted(resource: Resource, old: KubeObject, { propagationPolicy }: DeleteOptions): KubeObject {
  const metadata = { ...old.metadata };
  const finalizers = withPolicy(metadata.finalizers ?? [], propagationPolicy);
  if (finalizers.length > 0) metadata.finalizers = finalizers;
  else delete metadata.finalizers;
  if (!metadata.deletionTimestamp) {
    metadata.deletionTimestamp = timestamp(new Date());
    if (resource.storage !== 'namespaces') metadata.deletionGracePeriodSeconds = 0;
    if (metadata.generation) metadata.generation++;
  }
  if (resource.storage !== 'namespaces') return { ...old, metadata };
  return { ...old, metadata, status: { ...(old.status as object), phase: 'Terminating' } };
}

function withPolicy(finalizers: string[], policy: DeleteOptions['propagationPolicy']): string[] {
  if (!policy) return finalizers;
  const others = finalizers.filter((name) => name !== FOREGROUND_FINALIZER && name !== ORPHAN_FINALIZER);
  if (policy === 'Foreground') return [...others, FOREGROUND_FINALIZER];
  return policy === 'Orphan' ? [...others, ORPHAN_FINALIZER] : others;
}

/** Whether a deleted object has nothing left that holds it. */
function isReleased({ metadata, spec, kind, apiVersion }: KubeObject): boolean {
  if (!metadata.deletionTimestamp || (metadata.finalizers?.length ?? 0) > 0) return false;
  const isNamespace = kind === 'Namespace' && apiVersion === 'v1';
  return !isNamespace || ((spec as { finalizers?: string[] } | undefined)?.finalizers?.length ?? 0) === 0;
}

const tracking = ({ resource, subresource }: WriteTarget, { manager }: WriteOptions) => ({
  manager,
  apiVersion: resource.apiVersion,
  subresource,
  schema: resource.applySchema,
  now: new Date(),
});

function generateName(prefix: string): string {
  const suffix = Array.from({ length: 5 }, () => SUFFIX_LETTERS[randomInt(SUFFIX_LETTERS.length)]);
  return prefix.slice(0, MAX_PREFIX) + suffix.join('');
}

function matchNamespace({ resource, namespace }: WriteTarget, metadata: ObjectMeta): void {
  const named = metadata.namespace ?? '';
  if (named === '' || (resource.namespaced && named === namespace)) return;
  throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
}

function matchName(metadata: ObjectMeta, name: string): void {
  if (!metadata.name) metadata.name = name;
  if (metadata.name === name) return;
  throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`);
}

function decodeApplied({ resource, namespace }: WriteTarget, name: string, applied: JsonObject, options: WriteOptions) {
  const metadata = (applied.metadata ??= {}) as ObjectMeta;
  if (metadata.managedFields?.length) throw badRequest('metadata.managedFields must be nil');
  if (!applied.apiVersion || !applied.kind) throw badRequest('invalid object type: apiVersion and kind must be set');
  const sent = copy(applied);
  // Defaults are no choice of the applier: they are not to be owned by it.
  const object = decode(resource, applied, options);
  matchName(object.metadata, name);
  matchNamespace({ resource, namespace, subresource: '' }, object.metadata);
  resource.schema.prune(sent);
  const sentMetadata = sent.metadata as ObjectMeta;
  sentMetadata.name = name;
  if (resource.namespaced) sentMetadata.namespace = namespace;
  return sent;
}

/** Told of the resource, not of its kind, as by the real server. */
function versionRequired({ group, plural }: Resource, name: string): ApiError {
  const field = 'metadata.resourceVersion';
  return new ApiError(
    invalid({ group, kind: plural }, name, [
      { type: 'FieldValueInvalid', field, badValue: 0, detail: 'must be specified for an update' },
    ]),
  );
}

function checkPreconditions(resource: Resource, current: StoredObject, sent: ObjectMeta): void {
  const { uid } = current.object.metadata;
  if (sent.uid && sent.uid !== uid) {
    const key = `/registry/${resource.storage}/${current.namespace ? `${current.namespace}/` : ''}${current.name}`;
    throw conflict(
      resource,
      current.name,
      `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${sent.uid}, UID in object meta: ${uid}`,
    );
  }
  if (sent.resourceVersion && sent.resourceVersion !== String(current.revision)) {
    throw conflict(resource, current.name, MODIFIED);
  }
}

function checkDeletePreconditions(
  { kind, group }: Resource,
  { name, revision, object }: StoredObject,
  preconditions: DeleteOptions['preconditions'],
): void {
  const of = { plural: kind, group };
  const { uid } = object.metadata;
  if (preconditions?.uid && preconditions.uid !== uid) {
    throw conflict(
      of,
      name,
      `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    );
  }
  if (preconditions?.resourceVersion && preconditions.resourceVersion !== String(revision)) {
    throw conflict(
      of,
      name,
      `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${revision}). The object might have been modified`,
    );
  }
}

/** Which half of the object this write is about; the other half stays as it was. */
function mergeParts({ resource, subresource }: WriteTarget, old: KubeObject, incoming: KubeObject): KubeObject {
  if (subresource === 'finalize') return { ...old, metadata: { ...old.metadata }, spec: incoming.spec };
  if (subresource === 'status') {
    const { managedFields, ...kept } = old.metadata;
    const sent = incoming.metadata.managedFields ?? managedFields;
    const object: KubeObject = { ...old, metadata: { ...kept, ...(sent && { managedFields: sent }) } };
    if (incoming.status === undefined) delete object.status;
    else object.status = incoming.status;
    return object;
  }
  if (!hasStatus(resource)) return incoming;
  if (old.status === undefined) delete incoming.status;
  else incoming.status = old.status;
  return incoming;
}

/** Restores metadata that no update may change, whatever the client sent. */
function keepServerMetadata(metadata: ObjectMeta, old: ObjectMeta): void {
  metadata.uid = old.uid;
  metadata.creationTimestamp = old.creationTimestamp;
  metadata.resourceVersion = old.resourceVersion;
  for (const field of [
    'generation',
    'deletionTimestamp',
    'deletionGracePeriodSeconds',
    'namespace',
    'generateName',
  ] as const) {
    if (old[field] === undefined) delete metadata[field];
    else (metadata as JsonObject)[field] = old[field];
  }
}

/** Whether anything but metadata (and, where it is apart, status) differs. */
function wantsOther(resource: Resource, object: KubeObject, old: KubeObject): boolean {
  const { metadata: _, status, apiVersion: __, ...wanted } = object;
  const { metadata: ___, status: oldStatus, apiVersion: ____, ...before } = old;
  if (!isDeepStrictEqual(wanted, before)) return true;
  return !hasStatus(resource) && !isDeepStrictEqual(status, oldStatus);
}

/** Whether two versions say the same; when fields were last managed is no difference. */
function isSame(object: KubeObject, old: KubeObject): boolean {
  const { metadata, ...rest } = object;
  const { metadata: oldMetadata, ...oldRest } = old;
  if (!isDeepStrictEqual(rest, oldRest)) return false;
  const { managedFields, ...meta } = metadata;
  const { managedFields: oldFields, ...oldMeta } = oldMetadata;
  if (!isDeepStrictEqual(meta, oldMeta)) return false;
  const timeless = (fields: JsonObject[] = []) => fields.map(({ time: _, ...field }) => field);
  return isDeepStrictEqual(timeless(managedFields), timeless(oldFields));
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

/** Versions of a definition share one schema's storage: they differ in apiVersion alone. */
function stampVersion(resource: Resource, object: KubeObject): KubeObject {
  object.apiVersion = resource.storedApiVersion;
  return object;
}
