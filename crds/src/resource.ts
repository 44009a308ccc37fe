import type { TSchema } from 'typebox';
import { GROUP, VERSION } from './names.js';

/** The fields of `metadata` that our programs read. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface KubernetesObject<Kind extends string, Spec, Status> {
  apiVersion: 'slipway.dev/v1alpha1';
  kind: Kind;
  metadata: ObjectMeta;
  spec: Spec;
  status?: Status;
}

export interface PrinterColumn {
  name: string;
  type: 'string' | 'date' | 'integer' | 'boolean';
  jsonPath: string;
  /** 0: always shown. 1: shown only with `-o wide`. */
  priority?: 0 | 1;
}

/** One custom resource: the single source of its types, its schema and its defaults. */
export interface ResourceDefinition {
  kind: string;
  plural: string;
  singular: string;
  shortNames: readonly string[];
  scope: 'Cluster' | 'Namespaced';
  description: string;
  spec: TSchema;
  status: TSchema;
  validations: readonly { rule: string; message: string }[];
  columns: readonly PrinterColumn[];
}

/** Returns the CustomResourceDefinition (apiextensions.k8s.io/v1) of `definition` as plain JSON. */
export function customResourceDefinition(definition: ResourceDefinition) {
  const { kind, plural, singular, shortNames, scope, description, spec, status, validations, columns } = definition;
  const manifest = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      group: GROUP,
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames, categories: ['slipway'] },
      scope,
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description,
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string', description: 'The API group and version of this object.' },
                kind: { type: 'string', description: 'The kind of this object.' },
                metadata: { type: 'object' },
                spec: structural(spec),
                status: structural(status),
              },
              ...(validations.length > 0 ? { 'x-kubernetes-validations': validations } : {}),
            },
          },
        },
      ],
    },
  };
  return JSON.parse(JSON.stringify(manifest)) as typeof manifest;
}

/** Converts maps: TypeBox writes `patternProperties`, and Kubernetes requires `additionalProperties`. */
function structural(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(structural);
  if (schema === null || typeof schema !== 'object') return schema;
  const { patternProperties, ...rest } = schema as Record<string, unknown>;
  const entries = Object.entries(rest).map(([key, value]) => [key, structural(value)]);
  const map = patternProperties ? { additionalProperties: structural(Object.values(patternProperties)[0]) } : {};
  return { ...Object.fromEntries(entries), ...map };
}
