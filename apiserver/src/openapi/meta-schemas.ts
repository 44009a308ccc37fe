import type { JsonSchema } from '../schema/json-schema.js';

/** Prefix of the names of schemas that all objects share, as in Kubernetes. */
const META = 'io.k8s.apimachinery.pkg.apis.meta.v1';

/** A reference to a shared schema with a description, in OpenAPI's notation. */
export type Described = JsonSchema | { description: string; allOf: { $ref: string }[] };

const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });
export const describedRef = (name: string, description: string): Described => ({ description, allOf: [refTo(name)] });

export const OBJECT_META = `${META}.ObjectMeta`;
export const LIST_META = `${META}.ListMeta`;
export const STATUS = `${META}.Status`;
export const PATCH = `${META}.Patch`;
export const DELETE_OPTIONS = `${META}.DeleteOptions`;

export const text = (description: string): JsonSchema => ({ type: 'string', description });
export const texts = (description: string): JsonSchema => ({
  type: 'object',
  description,
  additionalProperties: { type: 'string' },
});
export const integer = (description: string): JsonSchema => ({ type: 'integer', format: 'int64', description });
export const flag = (description: string): JsonSchema => ({ type: 'boolean', description });
export const time = (description: string): JsonSchema => ({ type: 'string', format: 'date-time', description });
export const object = (
  description: string,
  properties: Record<string, JsonSchema>,
  required: string[] = [],
): JsonSchema => ({ type: 'object', description, properties, ...(required.length > 0 ? { required } : {}) });
export const list = (description: string, items: JsonSchema): JsonSchema => ({ type: 'array', description, items });
export const anything = (description: string): JsonSchema => ({
  type: 'object',
  description,
  'x-kubernetes-preserve-unknown-fields': true,
});

export const API_VERSION = text('The API group and version of this object.');
export const KIND = text('The kind of this object.');

const OWNER = object(
  'An object that owns this one.',
  {
    apiVersion: text("The owner's API group and version."),
    kind: text("The owner's kind."),
    name: text("The owner's name."),
    uid: text("The owner's uid."),
    controller: flag('True if the owner manages this object.'),
    blockOwnerDeletion: flag('True if foreground deletion of the owner waits until this object is deleted.'),
  },
  ['apiVersion', 'kind', 'name', 'uid'],
);

const MANAGED_FIELDS = object('The fields that one writer manages.', {
  manager: text('Who wrote.'),
  operation: text('Apply or Update.'),
  apiVersion: text('The version that the fields are written in.'),
  time: time('The time of the last change of these fields by the writer.'),
  fieldsType: text('FieldsV1.'),
  fieldsV1: anything('The fields, as a tree.'),
  subresource: text('The subresource that the writer used, if any.'),
});

export const META_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  [OBJECT_META]: object('Metadata of the object.', {
    name: text('The name, unique for the kind and namespace. Immutable.'),
    generateName: text('A prefix. If name is empty, the server generates a name with it.'),
    namespace: text('The namespace. Empty for cluster-scoped objects. Immutable.'),
    uid: text('A unique id, never reused for another object. Set by the server.'),
    resourceVersion: text('Changes with each write. Send it with a write to prevent overwriting a newer version.'),
    generation: integer('Counts the changes of the desired state. Set by the server.'),
    creationTimestamp: time('The time of the creation. Set by the server.'),
    deletionTimestamp: time('The time of the deletion request. The object is removed once finalizers is empty.'),
    deletionGracePeriodSeconds: integer('Seconds for a graceful deletion. Set by the server.'),
    labels: texts('Short values for selecting objects.'),
    annotations: texts('Any values that tools store with the object.'),
    finalizers: {
      ...list('Finalizers that must be removed before the object is deleted.', { type: 'string' }),
      'x-kubernetes-list-type': 'set',
    },
    ownerReferences: {
      ...list('The owners. The object is deleted once all of them are deleted.', OWNER),
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['uid'],
    },
    managedFields: list('The managers of the fields. Set by the server.', MANAGED_FIELDS),
    selfLink: text('No longer used.'),
  }),
  [LIST_META]: object('Metadata of the list.', {
    resourceVersion: text('The version of the list. A watch can start from it.'),
    continue: text('A token to request the next page.'),
    remainingItemCount: integer('The number of objects after this page.'),
    selfLink: text('No longer used.'),
  }),
  [STATUS]: object('The result of a request.', {
    apiVersion: API_VERSION,
    kind: KIND,
    metadata: anything('Empty.'),
    status: text('Success or Failure.'),
    message: text('A description for people.'),
    reason: text('The reason in one word, for programs.'),
    details: anything('The object and the fields that the result is about.'),
    code: integer('The HTTP status.'),
  }),
  [PATCH]: { type: 'object', description: 'A patch in the form of its content type.' },
  [DELETE_OPTIONS]: object('Options of a deletion.', {
    apiVersion: API_VERSION,
    kind: KIND,
    gracePeriodSeconds: integer('Seconds for a graceful deletion.'),
    propagationPolicy: text('Orphan, Background or Foreground: the handling of owned objects.'),
    preconditions: object('Conditions of the deletion.', {
      uid: text('The uid that the object must have.'),
      resourceVersion: text('The version that the object must have.'),
    }),
    dryRun: list('All: nothing is deleted.', { type: 'string' }),
  }),
};
