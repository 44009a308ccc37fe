/**
 * Fields of every Service that the operator makes. API defaults are set explicitly, as only then a change of them is
 * seen.
 */
export const INNER_SERVICE = { type: 'ClusterIP', sessionAffinity: 'None', internalTrafficPolicy: 'Cluster' } as const;
