/**
 * Fields of every Service that the operator creates. Defaults of the API are set explicitly, because only then a change
 * of them is detected.
 */
export const INNER_SERVICE = { type: 'ClusterIP', sessionAffinity: 'None', internalTrafficPolicy: 'Cluster' } as const;
