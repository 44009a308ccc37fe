/** Turns stored objects into what goes over the wire, in the version and form that was asked for. */
import type { KubeObject } from '../objects.js';
import type { Resource } from '../resources/resource.js';
import { type IncludeObject, table } from '../resources/tables.js';
import { badRequest } from '../status.js';
import type { StoredObject } from '../storage/stored-object.js';
import type { Form } from './negotiation.js';

export interface Presentation {
  resource: Resource;
  form: Form;
  include: IncludeObject;
}

export function includeObject(text: string | null): IncludeObject {
  if (text === null || text === '' || text === 'Metadata') return 'Metadata';
  if (text === 'None' || text === 'Object') return text;
  throw badRequest(`unrecognized includeObject value: ${JSON.stringify(text)}`);
}

/** The object in the requested version: stored versions differ in apiVersion alone. */
const inVersion = ({ apiVersion }: Resource, object: KubeObject): KubeObject =>
  object.apiVersion === apiVersion ? object : { ...object, apiVersion };

/** Returns the stored text of an object in the stored version, so that each version of it is serialized once. */
export const plainJson = (resource: Resource, { object, json }: StoredObject): string =>
  object.apiVersion === resource.apiVersion ? json : JSON.stringify(inVersion(resource, object));

const partial = ({ metadata }: KubeObject) => ({
  kind: 'PartialObjectMetadata',
  apiVersion: 'meta.k8s.io/v1',
  metadata,
});

export function objectJson({ resource, form, include }: Presentation, stored: StoredObject): string {
  if (form === 'object') return plainJson(resource, stored);
  const object = inVersion(resource, stored.object);
  if (form === 'metadata') return JSON.stringify(partial(object));
  const metadata = { resourceVersion: object.metadata.resourceVersion };
  return JSON.stringify(table(resource, [object], { metadata, include }));
}

export interface ListMetadata {
  resourceVersion: string;
  continue?: string;
  remainingItemCount?: number;
}

export function listJson(
  { resource, form, include }: Presentation,
  list: readonly StoredObject[],
  metadata: ListMetadata,
): string {
  const objects = () => list.map(({ object }) => inVersion(resource, object));
  if (form === 'table') return JSON.stringify(table(resource, objects(), { metadata, include }));
  const head = { kind: resource.listKind, apiVersion: resource.apiVersion, metadata };
  if (form === 'metadata') {
    const kind = { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1' };
    return JSON.stringify({ ...head, ...kind, items: objects().map(partial) });
  }
  const items = list.map((stored) => plainJson(resource, stored)).join(',');
  return `${JSON.stringify(head).slice(0, -1)},"items":[${items}]}`;
}

/** An object within a watch event. Of a Table the columns are told once. */
export function eventJson(
  { resource, form, include }: Presentation,
  stored: StoredObject,
  { first, revision }: { first: boolean; revision?: number },
): string {
  if (form === 'object' && revision === undefined) return plainJson(resource, stored);
  let object = inVersion(resource, stored.object);
  if (revision !== undefined) {
    object = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
  }
  if (form === 'object') return JSON.stringify(object);
  if (form === 'metadata') return JSON.stringify(partial(object));
  const metadata = { resourceVersion: object.metadata.resourceVersion };
  return JSON.stringify(table(resource, [object], { metadata, include, columns: first }));
}
