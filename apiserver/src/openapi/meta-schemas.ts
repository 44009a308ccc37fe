import type { JsonSchema } from '../schema/json-schema.js';

/** Schemas that all objects share, by their names in Kubernetes. */
const META = 'io.k8s.apimachinery.pkg.apis.meta.v1';

/** OpenAPI's way of pointing at a shared schema and describing the place. */
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
  'An object that this one belongs to.',
  {
    apiVersion: text("The owner's API group and version."),
    kind: text("The owner's kind."),
    name: text("The owner's name."),
    uid: text("The owner's uid."),
    controller: flag('Whether it is the one that manages this object.'),
    blockOwnerDeletion: flag('Whether the owner stays, in foreground deletion, until this object is gone.'),
  },
  ['apiVersion', 'kind', 'name', 'uid'],
);

const MANAGED_FIELDS = object('The fields that one writer manages.', {
  manager: text('Who wrote.'),
  operation: text('Apply or Update.'),
  apiVersion: text('The version that the fields are written in.'),
  time: time('When it last changed any of them.'),
  fieldsType: text('FieldsV1.'),
  fieldsV1: anything('The fields, as a tree.'),
  subresource: text('The subresource that it wrote through, if any.'),
});

export const META_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  [OBJECT_META]: object('What is known of every object.', {
    name: text('Unique among the objects of its kind (and namespace). Never changes.'),
    generateName: text('Without a name: the server adds letters to this and makes one.'),
    namespace: text('The namespace it is in; empty for objects of the whole cluster. Never changes.'),
    uid: text('Tells it from all other objects, past ones included. Set by the server.'),
    resourceVersion: text('Changes with each write; send it back to write only what you have seen.'),
    generation: integer('Counts changes of what is wanted. Set by the server.'),
    creationTimestamp: time('When it was made. Set by the server.'),
    deletionTimestamp: time('When its deletion was asked for; it is gone once finalizers is empty.'),
    deletionGracePeriodSeconds: integer('How long it may take to end. Set by the server.'),
    labels: texts('Short values to select objects by.'),
    annotations: texts('Any values that tools keep with it.'),
    finalizers: { ...list('Who must act before it may go.', { type: 'string' }), 'x-kubernetes-list-type': 'set' },
    ownerReferences: {
      ...list('It is deleted once all of these are gone.', OWNER),
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['uid'],
    },
    managedFields: list('Who manages which field. Kept by the server.', MANAGED_FIELDS),
    selfLink: text('No longer used.'),
  }),
  [LIST_META]: object('What is known of every list.', {
    resourceVersion: text('The version that it shows; watch from it.'),
    continue: text('Send it back to get the next page.'),
    remainingItemCount: integer('How many objects follow.'),
    selfLink: text('No longer used.'),
  }),
  [STATUS]: object('Why a request was refused, or that it was done.', {
    apiVersion: API_VERSION,
    kind: KIND,
    metadata: anything('Empty.'),
    status: text('Success or Failure.'),
    message: text('What happened, for people.'),
    reason: text('Why, in one word for programs.'),
    details: anything('The object and the fields concerned.'),
    code: integer('The HTTP status.'),
  }),
  [PATCH]: { type: 'object', description: 'A patch; its form is told by the content type.' },
  [DELETE_OPTIONS]: object('How to delete.', {
    apiVersion: API_VERSION,
    kind: KIND,
    gracePeriodSeconds: integer('How long it may take to end.'),
    propagationPolicy: text('Orphan, Background or Foreground: what becomes of the objects that it owns.'),
    preconditions: object('What must hold for it to be deleted.', {
      uid: text('Only if it has this uid.'),
      resourceVersion: text('Only at this version.'),
    }),
    dryRun: list('All: nothing is deleted.', { type: 'string' }),
  }),
};
