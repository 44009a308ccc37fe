/** The custom resource that both operators reconcile: their whole work is to write status.observedGeneration where it differs. */
export const RESOURCE_GROUP = 'bench.slipway.dev';
export const RESOURCE_VERSION = 'v1';
export const RESOURCE_PLURAL = 'widgets';
export const NAMESPACE = 'slipway-bench';

export const DEFINITION = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${RESOURCE_PLURAL}.${RESOURCE_GROUP}` },
  spec: {
    group: RESOURCE_GROUP,
    scope: 'Namespaced',
    names: { kind: 'Widget', listKind: 'WidgetList', plural: RESOURCE_PLURAL, singular: 'widget' },
    versions: [
      {
        name: RESOURCE_VERSION,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', properties: { size: { type: 'integer' } } },
              status: { type: 'object', properties: { observedGeneration: { type: 'integer' } } },
            },
          },
        },
      },
    ],
  },
};

export const WIDGETS_PATH = `/apis/${RESOURCE_GROUP}/${RESOURCE_VERSION}/namespaces/${NAMESPACE}/${RESOURCE_PLURAL}`;

export interface Widget {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; generation?: number; resourceVersion?: string };
  spec: { size: number };
  status?: { observedGeneration?: number };
}

export const isObserved = ({ metadata, status }: Widget) => status?.observedGeneration === metadata.generation;
