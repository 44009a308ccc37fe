/** A resource in one version, as the server needs it: its names, schema, columns and rules. */
import type { KubeObject } from '../objects.js';
import type { CompiledSchema, FieldError, JsonObject, JsonSchema } from '../schema/index.js';

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority?: number;
  /** The cell; a date as a timestamp when `type` is date, else as it is shown. */
  cell(object: KubeObject, now: number): unknown;
}

/** Hooks of a kind. Each is called with objects that it may change, `old` excepted. */
export interface Strategy {
  /** Fills what the server sets itself, before validation. */
  prepareCreate?(object: KubeObject): void;
  prepareUpdate?(object: KubeObject, old: KubeObject): void;
  validate?(object: KubeObject, old?: KubeObject): FieldError[];
  /** Returns the message of a 400 if the object does not fit the wire format's types. */
  decode?(object: JsonObject): string | undefined;
  /** Selectable fields beside metadata.name and metadata.namespace. */
  fields?(object: KubeObject): Record<string, string>;
  fieldNames?: readonly string[];
}

export interface Resource {
  group: string;
  version: string;
  /** `v1`, `slipway.dev/v1alpha1`. */
  apiVersion: string;
  plural: string;
  singular: string;
  kind: string;
  listKind: string;
  namespaced: boolean;
  shortNames: readonly string[];
  categories: readonly string[];
  verbs: readonly string[];
  /** Defined by a CustomResourceDefinition. */
  custom: boolean;
  /** The collection it is stored in, whatever the version: `secrets`, `projects.slipway.dev`. */
  storage: string;
  /** The apiVersion that is stored. */
  storedApiVersion: string;
  subresources: readonly ('status' | 'finalize')[];
  /** Whether metadata.generation counts changes of what is wanted. */
  generation: boolean;
  /** Whether an update without a resourceVersion goes ahead. */
  unconditionalUpdate: boolean;
  /** Whether an update of an object that isn't there creates it. */
  createOnUpdate: boolean;
  nameRule: 'subdomain' | 'label';
  schema: CompiledSchema;
  /** How lists merge in server-side apply. */
  applySchema: JsonSchema | undefined;
  columns: readonly Column[];
  strategy: Strategy;
}

export const ALL_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'] as const;

export const storageName = (group: string, plural: string) => (group === '' ? plural : `${plural}.${group}`);
export const apiVersionOf = (group: string, version: string) => (group === '' ? version : `${group}/${version}`);
export const hasStatus = (resource: Resource) => resource.subresources.includes('status');
