import { createHash } from 'node:crypto';
import { isObject, type JsonObject, type JsonSchema } from '../schema/json-schema.js';
import {
  API_VERSION,
  type Described,
  describedRef,
  KIND,
  LIST_META,
  META_SCHEMAS,
  OBJECT_META,
} from './meta-schemas.js';
import { pathsOf } from './operations.js';

export interface DocumentedResource {
  group: string;
  version: string;
  kind: string;
  listKind: string;
  plural: string;
  namespaced: boolean;
  /** Names of subresources, for example ['status']. */
  subresources: readonly string[];
  schema: JsonSchema;
}

/** Returns the body of `/openapi/v3`. Keys of `documents` are like `api/v1` or `apis/slipway.dev/v1alpha1`. */
export function openApiV3Index(documents: ReadonlyMap<string, JsonObject>): JsonObject {
  const paths = [...documents].map(([path, document]) => {
    const hash = createHash('sha512').update(JSON.stringify(document)).digest('hex').toUpperCase();
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }];
  });
  return { paths: Object.fromEntries(paths) };
}

/** Returns the body of `/openapi/v3/<api/v1 or apis/group/version>`. */
export function openApiV3Document(
  groupVersion: { group: string; version: string },
  resources: readonly DocumentedResource[],
): JsonObject {
  const prefix = schemaPrefix(groupVersion);
  const schemas: Record<string, unknown> = { ...META_SCHEMAS };
  let paths: JsonObject = {};
  for (const resource of resources) {
    const name = `${prefix}.${resource.kind}`;
    const listName = `${prefix}.${resource.listKind}`;
    schemas[name] = objectSchema(resource);
    schemas[listName] = listSchema(resource, name);
    paths = { ...paths, ...pathsOf(resource, name, listName) };
  }
  return { openapi: '3.0.0', info: { title: 'Kubernetes API', version: 'v1' }, paths, components: { schemas } };
}

/** Returns `dev.slipway.v1alpha1` for `slipway.dev` and `v1alpha1`. The core group has Kubernetes' own prefix. */
function schemaPrefix({ group, version }: { group: string; version: string }): string {
  return group === '' ? `io.k8s.api.core.${version}` : `${group.split('.').reverse().join('.')}.${version}`;
}

const gvkOf = ({ group, version }: DocumentedResource, kind: string) => [{ group, version, kind }];

function objectSchema(resource: DocumentedResource): JsonObject {
  const { properties, ...rest } = publicSchema(resource.schema) as JsonSchema;
  return {
    ...rest,
    type: 'object',
    properties: {
      ...properties,
      apiVersion: API_VERSION,
      kind: KIND,
      metadata: describedRef(OBJECT_META, 'Metadata of the object.'),
    },
    'x-kubernetes-group-version-kind': gvkOf(resource, resource.kind),
  };
}

function listSchema(resource: DocumentedResource, itemName: string): JsonObject {
  const metadata: Described = describedRef(LIST_META, 'Metadata of the list.');
  return {
    type: 'object',
    description: `A list of objects of kind ${resource.kind}.`,
    required: ['items'],
    properties: {
      apiVersion: API_VERSION,
      kind: KIND,
      metadata,
      items: { type: 'array', description: 'The objects.', items: { $ref: `#/components/schemas/${itemName}` } },
    },
    'x-kubernetes-group-version-kind': gvkOf(resource, resource.listKind),
  };
}

/** Converts a structural schema to OpenAPI. They differ only in int-or-string, which has no type in OpenAPI. */
function publicSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(publicSchema);
  if (!isObject(schema)) return schema;
  const copied = Object.entries(schema).map(([key, value]) => [
    key,
    key === 'default' || key === 'enum' ? value : publicSchema(value),
  ]);
  const intOrString = schema['x-kubernetes-int-or-string'] === true && !schema.anyOf;
  return {
    ...Object.fromEntries(copied),
    ...(intOrString ? { anyOf: [{ type: 'integer' }, { type: 'string' }] } : {}),
  };
}
