/** The CustomResourceDefinition of the suite. It uses every feature that the server must support. */
export function widgets(group: string) {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList', shortNames: ['wd'] },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
            { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
            { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
          ],
          schema: {
            openAPIV3Schema: {
              type: 'object',
              required: ['spec'],
              properties: {
                spec: {
                  type: 'object',
                  required: ['size'],
                  properties: {
                    size: { type: 'integer', minimum: 1, description: 'The size of the widget.' },
                    color: { type: 'string', enum: ['red', 'blue'], default: 'red' },
                    tags: { type: 'array', items: { type: 'string' } },
                    fixed: {
                      type: 'string',
                      'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'fixed is immutable' }],
                    },
                  },
                },
                status: {
                  type: 'object',
                  properties: {
                    phase: { type: 'string' },
                    conditions: {
                      type: 'array',
                      items: {
                        type: 'object',
                        properties: { type: { type: 'string' }, status: { type: 'string' } },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      ],
    },
  };
}
