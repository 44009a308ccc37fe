/** Converts stored objects to responses, in the requested version and format. */
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

/** Returns the object in the requested version. Stored versions differ only in apiVersion. */
const inVersion = ({ apiVersion }: Resource, object: KubeObject): KubeObject =>
  object.apiVersion === apiVersion ? object : { ...object, apiVersion };

/** JSON, as text or in UTF-8. */
export type Json = string | Buffer;

/** Returns the stored bytes if the object is requested in the stored version, so that nothing is copied. */
const plainJson = ({ resource }: Presentation, stored: StoredObject): Json =>
  stored.outline.apiVersion === resource.apiVersion ? stored.bytes : JSON.stringify(inVersion(resource, stored.object));

const partial = ({ metadata }: KubeObject) => ({
  kind: 'PartialObjectMetadata',
  apiVersion: 'meta.k8s.io/v1',
  metadata,
});

/** Returns the part of the object that the format shows. Columns show only the beginning of a long text. */
function shown({ resource, form, include }: Presentation, stored: StoredObject): KubeObject {
  const isWhole = form === 'object' || (form === 'table' && include === 'Object');
  return inVersion(resource, isWhole ? stored.object : stored.outline);
}

export function objectJson(presentation: Presentation, stored: StoredObject): Json {
  const { resource, form, include } = presentation;
  if (form === 'object') return plainJson(presentation, stored);
  if (form === 'metadata') return JSON.stringify(partial(stored.outline));
  const metadata = { resourceVersion: stored.outline.metadata.resourceVersion };
  return JSON.stringify(table(resource, [shown(presentation, stored)], { metadata, include }));
}

export interface ListMetadata {
  resourceVersion: string;
  continue?: string;
  remainingItemCount?: number;
}

/** Yields the text of a list in pieces, so that only one piece is in memory. */
export function* listPieces(
  presentation: Presentation,
  list: readonly StoredObject[],
  metadata: ListMetadata,
): Generator<Json> {
  const { resource, form } = presentation;
  if (form === 'table') return yield* tablePieces(presentation, list, metadata);
  const isPartial = form === 'metadata';
  const kind = isPartial ? 'PartialObjectMetadataList' : resource.listKind;
  const apiVersion = isPartial ? 'meta.k8s.io/v1' : resource.apiVersion;
  yield `${JSON.stringify({ kind, apiVersion, metadata }).slice(0, -1)},"items":[`;
  for (const [at, stored] of list.entries()) {
    if (at > 0) yield ',';
    yield isPartial ? JSON.stringify(partial(stored.outline)) : plainJson(presentation, stored);
  }
  yield ']}';
}

function* tablePieces(
  presentation: Presentation,
  list: readonly StoredObject[],
  metadata: ListMetadata,
): Generator<Json> {
  const { resource, include } = presentation;
  const rowsOf = (objects: readonly KubeObject[]) => table(resource, objects, { metadata, include });
  yield JSON.stringify({ ...rowsOf([]), rows: undefined }).slice(0, -1);
  yield ',"rows":[';
  for (const [at, stored] of list.entries()) {
    const row = JSON.stringify(rowsOf([shown(presentation, stored)]).rows[0]);
    yield at > 0 ? `,${row}` : row;
  }
  yield ']}';
}

/** Returns the JSON of an object in a watch event. A Table sends its columns once. */
export function eventJson(
  presentation: Presentation,
  stored: StoredObject,
  { first, revision }: { first: boolean; revision?: number },
): Json {
  const { resource, form, include } = presentation;
  if (form === 'object' && revision === undefined) return plainJson(presentation, stored);
  let object = shown(presentation, stored);
  if (revision !== undefined) {
    object = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
  }
  if (form === 'object') return JSON.stringify(object);
  if (form === 'metadata') return JSON.stringify(partial(object));
  const metadata = { resourceVersion: object.metadata.resourceVersion };
  return JSON.stringify(table(resource, [object], { metadata, include, columns: first }));
}
