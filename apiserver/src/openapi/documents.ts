import type { JsonObject, JsonSchema } from '../schema/json-schema.js';

export interface DocumentedResource {
  group: string;
  version: string;
  kind: string;
  listKind: string;
  plural: string;
  namespaced: boolean;
  /** e.g. ['status'] */
  subresources: readonly string[];
  schema: JsonSchema;
}

/** Answer of `/openapi/v3`. Keys of `documents` are `api/v1`, `apis/slipway.dev/v1alpha1`; values their documents. */
export declare function openApiV3Index(documents: ReadonlyMap<string, JsonObject>): JsonObject;

/** Answer of `/openapi/v3/<api/v1 or apis/group/version>`. */
export declare function openApiV3Document(
  groupVersion: { group: string; version: string },
  resources: readonly DocumentedResource[],
): JsonObject;
