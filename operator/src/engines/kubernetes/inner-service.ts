/**
 * What every Service has that the operator makes. What the API server fills in is named: only so a change of it is
 * seen.
 */
export const INNER_SERVICE = { type: 'ClusterIP', sessionAffinity: 'None', internalTrafficPolicy: 'Cluster' } as const;
