/** A resource in one version: its names, schema, columns and rules. */
import type { KubeObject } from '../objects.js';
import type { CompiledSchema, FieldError, JsonObject, JsonSchema } from '../schema/index.js';

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority?: number;
  /** Returns the cell's value. For the type date it is a timestamp, otherwise the text to show. */
  cell(object: KubeObject, now: number): unknown;
}

/** Hooks of a kind. A hook may change the objects that it gets, except `old`. */
export interface Strategy {
  /** Sets the fields that only the server sets, before validation. */
  prepareCreate?(object: KubeObject): void;
  prepareUpdate?(object: KubeObject, old: KubeObject): void;
  validate?(object: KubeObject, old?: KubeObject): FieldError[];
  /** Returns the message of a 400 if the object does not match the wire format's types. */
  decode?(object: JsonObject): string | undefined;
  /** Returns the selectable fields in addition to metadata.name and metadata.namespace. */
  fields?(object: KubeObject): Record<string, string>;
  fieldNames?: readonly string[];
}

export interface Resource {
  group: string;
  version: string;
  /** API version of the resource: `v1` or `slipway.dev/v1alpha1`. */
  apiVersion: string;
  plural: string;
  singular: string;
  kind: string;
  listKind: string;
  namespaced: boolean;
  shortNames: readonly string[];
  categories: readonly string[];
  verbs: readonly string[];
  /** True if a CustomResourceDefinition defines the resource. */
  custom: boolean;
  /** The collection of the objects in all versions: `secrets`, `projects.slipway.dev`. */
  storage: string;
  /** The apiVersion in which objects are stored. */
  storedApiVersion: string;
  subresources: readonly ('status' | 'finalize')[];
  /** True if metadata.generation counts changes of the desired state. */
  generation: boolean;
  /** True if an update needs no resourceVersion. */
  unconditionalUpdate: boolean;
  /** True if an update of a missing object creates it. */
  createOnUpdate: boolean;
  nameRule: 'subdomain' | 'label';
  schema: CompiledSchema;
  /** Schema that defines how lists merge in server-side apply. */
  applySchema: JsonSchema | undefined;
  columns: readonly Column[];
  strategy: Strategy;
}

export const ALL_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'] as const;

export const storageName = (group: string, plural: string) => (group === '' ? plural : `${plural}.${group}`);
export const apiVersionOf = (group: string, version: string) => (group === '' ? version : `${group}/${version}`);
export const hasStatus = (resource: Resource) => resource.subresources.includes('status');
